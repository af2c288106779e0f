// HTTP/2 as Go's standard library has it, with TLS (and HTTP/1.1 by ALPN) and without: `http2 CERTIFICATE KEY`.
// It prints `listening on TLS_PORT PLAIN_PORT`.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

func respond(response http.ResponseWriter, request *http.Request) {
	path, value, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/"), "/")
	switch path {
	case "bytes", "large":
		count := 300_000
		if value != "" {
			count, _ = strconv.Atoi(value)
		}
		io.Copy(response, io.LimitReader(zeros{}, int64(count)))
	case "flushed":
		// Each piece in a frame of its own, without a length.
		for range 5 {
			io.WriteString(response, "piece ")
			response.(http.Flusher).Flush()
		}
	case "trailers":
		response.Header().Set("Trailer", "X-Checksum")
		io.WriteString(response, "Hello, World!")
		response.Header().Set("X-Checksum", "13")
	case "abort":
		io.WriteString(response, "Hello")
		response.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case "close":
		// The last response on this connection.
		response.Header().Set("Connection", "close")
		io.WriteString(response, "Hello, World!")
	case "hints":
		response.Header().Set("Link", "</style.css>; rel=preload")
		response.WriteHeader(http.StatusEarlyHints)
		io.WriteString(response, "Hello, World!")
	case "echo":
		body, _ := io.ReadAll(request.Body)
		response.Header().Set("X-Proto", request.Proto)
		response.Write(body)
	case "unread":
		// Responds without reading the request's body.
		response.WriteHeader(http.StatusRequestEntityTooLarge)
		io.WriteString(response, "Hello, World!")
	default:
		io.WriteString(response, "Hello, World!")
	}
}

type zeros struct{}

func (zeros) Read(bytes []byte) (int, error) {
	clear(bytes)
	return len(bytes), nil
}

func listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return listener
}

func main() {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: http.HandlerFunc(respond), Protocols: protocols}
	server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 10}
	secure, plain := listen(), listen()
	port := func(listener net.Listener) int { return listener.Addr().(*net.TCPAddr).Port }
	fmt.Printf("listening on %d %d\n", port(secure), port(plain))
	go server.Serve(plain)
	server.ServeTLS(secure, os.Args[1], os.Args[2])
}
