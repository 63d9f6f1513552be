// Package jobserver is the HTTP API of jobs, for programs that have no Go and no command line:
//
//	POST /v1/groups/{group}/jobs               hand a job in
//	GET  /v1/groups/{group}/jobs               every job
//	GET  /v1/groups/{group}/jobs/{id}          one job
//	GET  /v1/groups/{group}/jobs/{id}/events   its status, at each change, as server-sent events
//	POST /v1/groups/{group}/jobs/{id}/cancel
//	POST /v1/groups/{group}/jobs/{id}/retry
//	GET  /v1/groups/{group}/workers            the workers
//	GET  /openapi.yaml                         all of this for programs
//
// Errors are JSON: {"error": "…"}.
package jobserver
