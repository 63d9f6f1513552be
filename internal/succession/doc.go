// Package succession has tests of what one leader leaves to the next: processes that run one task, one after the other,
// each killed or paused at a chosen boundary of a step, against real databases.
package succession
