package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
)

const (
	// largestMessage bounds one message of a server.
	largestMessage = 16 << 20

	// farewell is how long a process may take to end after each of: the end of its input, SIGTERM.
	farewell = time.Second

	loggedLine = 4 << 10
)

// process is a server that this process started. It leads a process group of its own, which ends with it.
type process struct {
	log    *zap.Logger
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	exited chan struct{} // closed when the process and its group are gone
}

// startProcess starts the server of a declaration.
func startProcess(d Server, env []string, log *zap.Logger) (*process, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		closeAll(inR, inW)
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		closeAll(inR, inW, outR, outW)
		return nil, err
	}
	cmd := exec.Command(d.Command, d.Args...) //nolint:noctx // it outlives every call; stop ends it
	cmd.Dir, cmd.Env = d.Dir, env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	leadGroup(cmd)
	err = cmd.Start()
	closeAll(inR, outW, errW)
	if err != nil {
		closeAll(inW, outR, errR)
		return nil, err
	}
	p := &process{log: log.With(zap.Int("pid", cmd.Process.Pid)), cmd: cmd, stdin: inW, stdout: outR, exited: make(chan struct{})}
	p.log.Debug("process started")
	go p.wait(errR)
	return p, nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// lastWords is how long what a process wrote before its end may take to be read, while something that escaped its group
// still holds the pipe.
const lastWords = time.Second

func (p *process) wait(stderr *os.File) {
	logged := make(chan struct{})
	go func() { defer close(logged); p.logLines(stderr) }()
	err := p.cmd.Wait()
	killGroup(p.cmd)
	deadline := time.Now().Add(lastWords)
	_, _ = p.stdout.SetReadDeadline(deadline), stderr.SetReadDeadline(deadline)
	<-logged
	_ = stderr.Close()
	p.log.Debug("the server's process ended", zap.NamedError("status", err))
	close(p.exited)
}

// logLines logs what the process says on its standard error.
func (p *process) logLines(stderr io.Reader) {
	for line := range boundedLines(stderr, loggedLine) {
		p.log.Debug("stderr", zap.ByteString("line", line.text))
	}
}

// stop ends the process: kindly at first, for as long as ctx allows. Then its whole group is killed.
func (p *process) stop(ctx context.Context) {
	_ = p.stdin.Close()
	if !p.gone(ctx, farewell) {
		terminateGroup(p.cmd)
		if !p.gone(ctx, farewell) {
			killGroup(p.cmd)
			<-p.exited
		}
	}
	_ = p.stdout.Close()
}

func (p *process) gone(ctx context.Context, within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// transport speaks to the process over its pipes.
func (p *process) transport() mcp.Transport {
	return &mcp.IOTransport{Reader: p.messages(), Writer: p.stdin, MaxLineLength: largestMessage}
}

// messages is the standard output with nothing but messages in it: a server that prints a banner or logs there is
// otherwise cut off.
func (p *process) messages() io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		for line := range boundedLines(p.stdout, largestMessage) {
			switch {
			case line.cut:
				_ = w.CloseWithError(fmt.Errorf("a line of more than %d bytes", largestMessage))
				return
			case !isMessage(line.text):
				p.log.Debug("stdout: not a message", zap.ByteString("line", line.text[:min(len(line.text), loggedLine)]))
				continue
			}
			if _, err := w.Write(append(line.text, '\n')); err != nil {
				break
			}
		}
		_ = w.CloseWithError(io.EOF)
	}()
	return r
}

func isMessage(line []byte) bool {
	var message struct {
		Version string `json:"jsonrpc"`
	}
	return json.Unmarshal(line, &message) == nil && message.Version == "2.0"
}

// boundedLine is a line without its end, or its beginning when it is longer than was allowed.
type boundedLine struct {
	text []byte
	cut  bool
}

// boundedLines reads lines until the end of r. Each is valid until the next one. One that is too long is told of as
// soon as that is known; its rest is dropped.
func boundedLines(r io.Reader, limit int) func(yield func(boundedLine) bool) {
	return func(yield func(boundedLine) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		var line boundedLine
		for {
			part, err := in.ReadSlice('\n')
			ends := !errors.Is(err, bufio.ErrBufferFull)
			if !line.cut {
				line.text = append(line.text, part...)
				if text := trimEnd(line.text); ends || len(text) > limit {
					line.cut = len(text) > limit
					if len(text) > 0 && !yield(boundedLine{text[:min(len(text), limit)], line.cut}) {
						return
					}
				}
			}
			if ends {
				line = boundedLine{text: line.text[:0]}
				if err != nil {
					return
				}
			}
		}
	}
}

func trimEnd(line []byte) []byte {
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line
}
