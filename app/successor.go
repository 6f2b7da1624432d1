package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What a successor tells its predecessor, a line each, over a pipe that ends with it (ADR 9).
const (
	sayWaiting = "waiting" // all that can fail beside the predecessor went well; it must free the store
	sayReady   = "ready"   // it serves
	sayFailed  = "failed " // followed by the reason; it is about to end
)

// Descriptors of a successor, named by the variable handedOn in its environment.
const (
	handedOn       = "KEEL_HANDED_ON"
	handedSocketFD = 3
	handedPipeFD   = 4
)

// wordLimit is how long a successor may take to say anything, and again to serve once the store is free.
const wordLimit = time.Minute

// successor is a process that shall take over from this one.
type successor struct {
	cmd   *exec.Cmd
	words chan string // sayWaiting and sayReady as they come
	state succession
	gone  chan struct{} // closed when the process has ended
	err   error         // why it ended; not to be read before gone is closed
	well  bool          // it ended with 0; likewise
}

// startSuccessor runs the program of this process anew, with its arguments and environment, and hands it the socket.
func startSuccessor(s *socket) (*successor, error) {
	path, err := exec.LookPath(os.Args[0]) // anew: what is there may have been replaced
	if err != nil {
		return nil, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = to.Close() }()
	n := &successor{
		cmd:   exec.CommandContext(context.Background(), path, os.Args[1:]...), // it outlives whatever happens here
		words: make(chan string, 2), gone: make(chan struct{}),
	}
	n.cmd.Args[0] = os.Args[0]
	n.cmd.Env = append(os.Environ(), handedOn+"=1")
	n.cmd.Stdin, n.cmd.Stdout, n.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	n.cmd.ExtraFiles = []*os.File{s.file, to}
	if err := n.cmd.Start(); err != nil {
		return nil, errors.Join(err, from.Close())
	}
	go n.watch(from)
	return n, nil
}

// watch hands on what the successor says, and learns of its end.
func (n *successor) watch(from *os.File) {
	late := time.AfterFunc(wordLimit, n.kill)
	why := ""
	for lines := bufio.NewScanner(from); lines.Scan(); {
		late.Stop()
		word := lines.Text()
		if reason, failed := strings.CutPrefix(word, sayFailed); failed {
			why = ": " + reason
		} else if len(n.words) < cap(n.words) {
			n.words <- word
		}
	}
	_ = from.Close()
	n.err = fmt.Errorf("the successor ended%s", why)
	err := n.cmd.Wait()
	if n.well = err == nil; !n.well {
		n.err = fmt.Errorf("the successor ended (%w)%s", err, why)
	}
	late.Stop()
	close(n.gone)
}

func (n *successor) kill() { _ = n.cmd.Process.Kill() }

func (n *successor) hear(word string) {
	if word == sayReady {
		n.state = serving
	} else {
		n.state = waiting
	}
}

// relieved reports whether the successor, which has ended, served and ended well: it was succeeded itself, or told to end.
func (n *successor) relieved() bool {
	for n.well {
		select {
		case word := <-n.words:
			n.hear(word)
		default:
			return n.state == serving
		}
	}
	return false
}

// stop asks the successor to end. It does nothing when there is none.
func (n *successor) stop() {
	if n != nil {
		_ = n.cmd.Process.Signal(syscall.SIGTERM)
	}
}

// word returns where the successor is heard. Without one there is silence.
func (n *successor) word() <-chan string {
	if n == nil {
		return nil
	}
	return n.words
}

// end returns a channel that is closed when the successor has ended. Without one there is no end.
func (n *successor) end() <-chan struct{} {
	if n == nil {
		return nil
	}
	return n.gone
}

// predecessor is what a successor has of the process that started it. A nil one hears nothing.
type predecessor struct{ pipe *os.File }

// handed returns the predecessor and the socket that it handed on, nothing when this process was started otherwise.
func handed() (*predecessor, *os.File) {
	if os.Getenv(handedOn) == "" {
		return nil, nil
	}
	_ = os.Unsetenv(handedOn)
	unix.CloseOnExec(handedSocketFD)
	unix.CloseOnExec(handedPipeFD)
	return &predecessor{os.NewFile(handedPipeFD, "predecessor")}, os.NewFile(handedSocketFD, "listener")
}

// tell says a word. Nobody hears it when the predecessor is gone, and then there is nothing left to wait for.
func (p *predecessor) tell(word string) {
	if p != nil {
		_, _ = io.WriteString(p.pipe, strings.ReplaceAll(word, "\n", "; ")+"\n")
	}
}

// leave ends the relation.
func (p *predecessor) leave() {
	if p != nil {
		_ = p.pipe.Close()
	}
}
