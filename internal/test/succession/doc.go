// Package succession tests what one leader leaves to the next. Processes run one task, one after
// the other, each killed or paused at a chosen boundary of a step, with real databases.
package succession
