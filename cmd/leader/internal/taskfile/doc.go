// Package taskfile reads task files: YAML files that describe a task whose steps are SQL, shell
// commands and Redis commands.
//
//	task: settlement-${DATE}   # ${VAR} is from the environment; only here
//	resource: settlement
//	steps:
//	  - name: book
//	    sql: insert into …      # synchronous: committed with the checkpoint
//	  - name: send
//	    run: ./send.sh          # asynchronous
//
// Load rejects a file with mistakes, and lists all of them with their positions. It needs no
// server: the program that runs the steps checks whether the journal fits them.
package taskfile
