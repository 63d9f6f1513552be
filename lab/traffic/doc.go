// Package traffic is the jobs that the lab submits: what they are, the clients that submit, cancel
// and retry them, and the steps that lab and workers record. Workers make the other traffic
// themselves (package worker).
package traffic
