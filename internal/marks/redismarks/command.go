package redismarks

import "strconv"

// Command encodes a command for a connection of Dial.
func Command(words ...string) []byte {
	b := []byte("*" + strconv.Itoa(len(words)) + "\r\n")
	for _, w := range words {
		b = append(b, "$"+strconv.Itoa(len(w))+"\r\n"+w+"\r\n"...)
	}
	return b
}
