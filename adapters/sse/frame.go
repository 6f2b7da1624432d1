package sse

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/keel-agent/keel/domain"
)

// Frame is one committed event as it goes over the wire. Bytes is shared between streams: nobody changes it.
type Frame struct {
	Seq        domain.Seq
	Bytes      []byte // the whole frame, with its closing empty line
	Epoch      int64  // of the attempt that committed the event, 0 when none did
	Generation string // of an assistant.message: its generation id
}

const keepAliveFrame = ": keep-alive\n\n"

// drainFrame returns the last frame of a stream, which says when to connect again.
func drainFrame(retryAfter time.Duration) []byte {
	return fmt.Appendf(nil, "event: drain\ndata: {\"retry_after_ms\":%d}\n\n", retryAfter.Milliseconds())
}

// appendEventFrame appends the frame of event number seq, whose JSON is data.
func appendEventFrame(dst []byte, seq domain.Seq, data []byte) []byte {
	dst = append(dst, "id: "...)
	dst = strconv.AppendInt(dst, int64(seq), 10)
	dst = append(dst, '\n')
	return appendData(dst, data)
}

// appendPartialFrame appends a frame of type partial. It has no id, so it never moves Last-Event-ID.
func appendPartialFrame(dst, data []byte) []byte {
	dst = append(dst, "event: partial\n"...)
	return appendData(dst, data)
}

// appendData appends data and the end of the frame. A line break in data, which JSON of this project never has, begins
// another data line, so that no content can end a frame or begin a field.
func appendData(dst, data []byte) []byte {
	for {
		dst = append(dst, "data: "...)
		i := lineBreak(data)
		if i < 0 {
			dst = append(dst, data...)
			return append(dst, '\n', '\n')
		}
		dst = append(dst, data[:i]...)
		dst = append(dst, '\n')
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
}

// lineBreak returns where the first line break in data is, -1 when there is none.
func lineBreak(data []byte) int {
	n := bytes.IndexByte(data, '\n')
	if n < 0 {
		return bytes.IndexByte(data, '\r')
	}
	if r := bytes.IndexByte(data[:n], '\r'); r >= 0 {
		return r
	}
	return n
}
