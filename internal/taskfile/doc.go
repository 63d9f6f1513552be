// Package taskfile reads task files: tasks whose steps are SQL, shell commands and Redis commands, written in YAML.
//
//	task: settlement-${DATE}   # ${VAR} is the environment's; nowhere else in the file
//	resource: settlement
//	steps:
//	  - name: book
//	    sql: insert into …      # synchronous: committed with the checkpoint
//	  - name: send
//	    run: ./send.sh          # asynchronous
//
// A file that is not right is refused as a whole, with every problem that could be found and where it is. What is read
// here needs no server: whether a journal fits the steps is for the program that runs them.
package taskfile
