// Package jobserver is the HTTP API of jobs, for programs that have no Go and no command line, and
// a page that shows them:
//
//	POST /v1/groups/{group}/jobs               hand a job in
//	GET  /v1/groups/{group}/jobs               a page of the jobs, without results
//	GET  /v1/groups/{group}/jobs/{id}          one job
//	GET  /v1/groups/{group}/jobs/{id}/spec     as it was handed in
//	GET  /v1/groups/{group}/jobs/{id}/output   what it has brought, or so far, if it runs
//	GET  /v1/groups/{group}/jobs/{id}/events   its status, at each change, as server-sent events
//	POST /v1/groups/{group}/jobs/{id}/cancel
//	POST /v1/groups/{group}/jobs/{id}/retry
//	POST /v1/groups/{group}/jobs/{id}/run      now
//	POST /v1/groups/{group}/jobs/{id}/pause
//	POST /v1/groups/{group}/jobs/{id}/resume
//	GET  /v1/groups/{group}/workers            the workers
//	GET  /v1/groups/{group}/events             how the group is doing, as server-sent events
//	GET  /v1/groups                            those that the page offers
//	GET  /openapi.yaml                         all of this for programs
//	GET  /                                     the page
//
// Errors are JSON: {"error": "…"}.
//
// # Who may ask
//
// With a token, whatever is below /v1 needs it, and the page asks for it: the files of the page and
// the description say nothing about jobs. The page keeps the token in sessionStorage and sends it
// in a header, so it is in no address, and no other site can have the browser send it. Its buttons
// send what any client of the API sends. Without a token the API answers only requests to a
// loopback name, since the name of a foreign page may lead to 127.0.0.1.
//
// # What the page costs
//
// A group is read while somebody looks, once for all streams, and a reading is followed by a pause
// of twenty times its length. It lists names, and reads only the statuses that are shown
// (queueview.View.Overview).
package jobserver
