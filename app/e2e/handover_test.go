package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// durableStores are those that a successor can take over.
var durableStores = []string{"sqlite", "postgres"}

// upgrade has the process pid replaced by a successor and returns the successor's pid.
func (p *process) upgrade(pid int) int {
	p.t.Helper()
	require.NoError(p.t, syscall.Kill(pid, syscall.SIGHUP))
	next := pid
	eventually(p.t, "a hand-over", func() bool {
		last := p.logs.find(`(?s).*handed over\t\{"pid": (\d+)\}`)
		next, _ = strconv.Atoi(last)
		return last != "" && next != pid
	})
	eventually(p.t, "the end of the predecessor", func() bool { return !alive(pid) })
	return next
}

// Clients that dial all the time, and others that keep their connections, see none of several upgrades in place.
func TestUpgradeInPlace(t *testing.T) {
	needsProc(t)
	t.Parallel()
	for _, kind := range durableStores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := serve(t, newStore(t, kind), nil, "--provider", "fake")
			c := gather(p, 3)
			pid := p.cmd.Process.Pid
			for range 5 {
				c.progress(t, 50)
				pid = p.upgrade(pid)
			}
			c.progress(t, 50)
			p.ended() // the first one, with 0
			c.disperse(p)
			require.NotContains(t, p.logs.String(), "connections cut")
			require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
			eventually(t, "the end of the last one", func() bool { return !alive(pid) })
		})
	}
}

// What keeps a successor from serving shows before the old process gives anything up, or is taken back.
func TestUpgradeThatFails(t *testing.T) {
	needsProc(t)
	t.Parallel()
	for _, kind := range durableStores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			script := filepath.Join(t.TempDir(), "script.json")
			require.NoError(t, os.WriteFile(script, []byte(`[{"text":"hi"}]`), 0o600))
			program := copyOf(t)
			cmd := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--store", newStore(t, kind), "--auth", "off", "--provider", "fake", "--script", script)
			cmd.Env = withoutSettings(os.Environ())
			p := begin(t, cmd)
			p.url = p.says(`ready at (http://\S+)`)
			c := gather(p, 2)
			refused := func(n int, why string) {
				t.Helper()
				p.signal(syscall.SIGHUP)
				eventually(t, "a refusal", func() bool { return strings.Count(p.logs.String(), "this process serves on") == n })
				require.Contains(t, p.logs.String(), why)
				c.progress(t, 20)
			}
			require.NoError(t, os.WriteFile(script, []byte(`[{"nonsense":1}]`), 0o600))
			refused(1, "no hand-over, this process serves on\t{\"error\": \"the successor ended (exit status 1): the script is not an array of turns: ")
			require.NoError(t, os.WriteFile(script, []byte(`[{"text":"hi"}]`), 0o600))

			replace := func(text string) {
				t.Helper()
				require.NoError(t, os.WriteFile(program+".new", []byte(text), 0o700))
				require.NoError(t, os.Rename(program+".new", program))
			}
			replace("#!/bin/sh\nexit 7\n")
			refused(2, "the successor ended (exit status 7)")
			replace("#!/bin/sh\nsleep 0.2; echo waiting >&4; exit 8\n")
			refused(3, "the successor failed, this process serves on\t{\"error\": \"the successor ended (exit status 8)\"}")
			replace("#!/bin/sh\necho ready >&4; exit 9\n")
			refused(4, "the successor failed, this process serves on\t{\"error\": \"the successor ended (exit status 9)\"}")
			require.NoError(t, os.Remove(program))
			refused(5, "no such file")
			c.disperse(p)
			p.stop()
		})
	}
}

// While its predecessor drains, a successor on SQLite waits. It takes over from one that is killed, and ends with one that
// is told to end.
func TestPredecessorEndsEarly(t *testing.T) {
	needsProc(t)
	t.Parallel()
	for name, s := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "terminated": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serve(t, newStore(t, "sqlite"), nil, "--provider", "fake")
			p.create(`{"id":"s1"}`)
			p.input("s1", `{"text":"go","requestId":"r","selection":{"script":[{"text":"slow","delayMs":60000}]}}`)
			p.until("s1", func([]event) bool { return p.newest("s1")["status"] == "running" })
			p.signal(syscall.SIGHUP)
			p.says("draining")
			next, err := strconv.Atoi(p.says(`started a successor\t\{"pid": (\d+)\}`))
			require.NoError(t, err)
			require.True(t, alive(next))
			p.signal(s)
			if s == syscall.SIGTERM {
				p.ended()
				eventually(t, "the successor ends too", func() bool { return !alive(next) })
				require.Equal(t, 1, strings.Count(p.logs.String(), "is ready at"))
				return
			}
			require.Error(t, <-p.done)
			eventually(t, "the successor serves", func() bool { return p.status("/readyz") == 200 })
			p.until("s1", func([]event) bool { return p.newest("s1")["status"] == "running" })
			require.NoError(t, syscall.Kill(next, syscall.SIGTERM))
			require.NoError(t, syscall.Kill(next, syscall.SIGTERM))
			eventually(t, "its end", func() bool { return !alive(next) })
		})
	}
}

func TestUpgradeNeedsADurableStore(t *testing.T) {
	t.Parallel()
	p := serve(t, "memory:", nil, "--provider", "fake")
	p.signal(syscall.SIGHUP)
	p.says("no hand-over, this process serves on.*memory: ends with its process")
	p.stop()
}

// Servers come and go while the socket stays: connections wait in it, and no client notices.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	for _, kind := range durableStores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store, socket := newStore(t, kind), holdSocket(t, "127.0.0.1:0")
			p := serveOn(t, socket, store)
			require.Contains(t, p.logs.String(), `listening on an inherited socket, --listen is not used`)
			c := gather(p, 3)
			for range 4 {
				c.progress(t, 50)
				p.stop()
				p = serveOn(t, socket, store)
			}
			c.progress(t, 50)
			c.disperse(p)
			p.stop()
		})
	}
}

// On SQLite the next server may be started before the last one has ended: it waits for the store.
func TestStoreWait(t *testing.T) {
	t.Parallel()
	store, socket := newStore(t, "sqlite"), holdSocket(t, "127.0.0.1:0")
	p := serveOn(t, socket, store)
	c := gather(p, 2)
	c.progress(t, 20)
	impatient := activate(t, store, nil, []*os.File{socket.file})
	impatient.refused()
	require.Contains(t, impatient.logs.String(), "another process serves this database")
	late := activate(t, store, nil, []*os.File{socket.file}, "--store-wait", "50ms")
	late.refused()
	require.Contains(t, late.logs.String(), "another process serves this database")
	stopped := activate(t, store, nil, []*os.File{socket.file}, "--store-wait", "1m")
	stopped.says("another process serves the store, waiting")
	stopped.stop()
	next := activate(t, store, nil, []*os.File{socket.file}, "--store-wait", "1m")
	next.url = socket.url
	next.says("another process serves the store, waiting")
	c.progress(t, 20)
	p.stop()
	next.says("is ready at")
	c.progress(t, 20)
	c.disperse(next)
	next.stop()
}

func TestInheritedSocketsThatCannotBe(t *testing.T) {
	t.Parallel()
	store := newStore(t, "sqlite")
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer packets.Close()
	datagrams, err := packets.(*net.UDPConn).File()
	require.NoError(t, err)
	defer datagrams.Close()
	local, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	defer local.Close()
	unix, err := local.(*net.UnixListener).File()
	require.NoError(t, err)
	defer unix.Close()
	stream, everywhere := holdSocket(t, "127.0.0.1:0"), holdSocket(t, "0.0.0.0:0")
	for want, files := range map[string][]*os.File{
		"the inherited descriptor is no listening TCP socket: LISTEN_FD_3 from the service manager\n":                     {datagrams},
		"the inherited descriptor is no listening TCP socket: LISTEN_FD_3 from the service manager is of the kind unix\n": {unix},
		"2 sockets were passed (LISTEN_FDS): want one\n":                                                                  {stream.file, everywhere.file},
		"the socket from the service manager: --auth off serves loopback addresses only":                                  {everywhere.file},
	} {
		p := activate(t, store, nil, files)
		p.refused()
		require.Contains(t, p.logs.String(), want)
	}
}

// What systemd wants to know for Type=notify and notify-reload.
func TestTheServiceManagerIsTold(t *testing.T) {
	needsProc(t)
	t.Parallel()
	for _, kind := range durableStores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "notify")
			manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
			require.NoError(t, err)
			defer manager.Close()
			next := func() string {
				t.Helper()
				require.NoError(t, manager.SetReadDeadline(time.Now().Add(20*time.Second)))
				buf := make([]byte, 1000)
				n, err := manager.Read(buf)
				require.NoError(t, err)
				return strings.TrimSpace(string(buf[:n]))
			}
			program := copyOf(t)
			cmd := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--store", newStore(t, kind), "--auth", "off", "--provider", "fake")
			cmd.Env = append(withoutSettings(os.Environ()), "NOTIFY_SOCKET="+path)
			p := begin(t, cmd)
			require.Equal(t, "READY=1", next())
			good, err := os.ReadFile(program)
			require.NoError(t, err)
			for _, text := range [][]byte{[]byte("#!/bin/sh\nexit 7\n"), good} {
				require.NoError(t, os.WriteFile(program+".new", text, 0o700))
				require.NoError(t, os.Rename(program+".new", program))
				p.signal(syscall.SIGHUP)
				require.Regexp(t, `^RELOADING=1\nMONOTONIC_USEC=\d+$`, next())
				if len(text) < 100 {
					require.Equal(t, "READY=1", next())
				}
			}
			became := next()
			require.Regexp(t, `^MAINPID=\d+\nREADY=1$`, became)
			p.ended()
			pid, err := strconv.Atoi(strings.TrimPrefix(strings.SplitN(became, "\n", 2)[0], "MAINPID="))
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
			require.Equal(t, "STOPPING=1", next())
			eventually(t, "its end", func() bool { return !alive(pid) })
		})
	}
}

// Whoever asks for the end again waits no longer: what runs is handed back, in order.
func TestSecondSignalEndsTheGrace(t *testing.T) {
	t.Parallel()
	for _, kind := range durableStores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store := newStore(t, kind)
			p := serve(t, store, nil, "--provider", "fake")
			p.create(`{"id":"s1"}`)
			p.input("s1", `{"text":"go","requestId":"r","selection":{"script":[{"text":"slow","delayMs":60000}]}}`)
			p.until("s1", func([]event) bool { return p.newest("s1")["status"] == "running" })
			frames := p.stream(t.Context(), "s1", "after=1")
			began := time.Now()
			p.signal(syscall.SIGTERM)
			eventually(t, "the drain begins", func() bool { return p.status("/readyz") == 503 })
			p.signal(syscall.SIGTERM)
			p.ended()
			require.Less(t, time.Since(began), 15*time.Second)
			drainHint(t, <-frames)
			_, open := <-frames
			require.False(t, open)
			p = serve(t, store, nil, "--provider", "fake", "--workers", "1")
			p.until("s1", func([]event) bool { return p.newest("s1")["status"] == "running" })
			require.EqualValues(t, 1, p.newest("s1")["attempts"], "the hand-back cost no attempt")
			require.Equal(t, 202, p.call("POST", "/v1/sessions/s1/cancel", "").status)
			p.rested("s1")
			p.stop()
		})
	}
}

// Whoever took over may be succeeded itself, or end, while its predecessor still drains: that one ends all the same.
func TestSuccessorEndsWhileItsPredecessorDrains(t *testing.T) {
	needsProc(t)
	t.Parallel()
	for name, second := range map[string]syscall.Signal{"succeeded": syscall.SIGHUP, "told to end": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := serve(t, newStore(t, "postgres"), nil, "--provider", "fake", "--drain-grace", "20s")
			first.create(`{"id":"s1","tools":["sleep"]}`)
			first.input("s1", `{"text":"go","requestId":"r","selection":{"script":[{"toolCalls":[{"name":"sleep","arguments":{"ms":5000}}]},{"text":"done"}]}}`)
			first.until("s1", func(es []event) bool { return len(es) == 2 })
			first.signal(syscall.SIGHUP)
			next := 0
			eventually(t, "a successor that serves", func() bool {
				next, _ = strconv.Atoi(first.logs.find(`started a successor\t\{"pid": (\d+)\}`))
				return strings.Count(first.logs.String(), "registered") == 2
			})
			require.NoError(t, syscall.Kill(next, second))
			eventually(t, "the end of the successor", func() bool { return !alive(next) })
			require.Empty(t, first.done, "it still drains")
			first.ended()
			require.NotContains(t, first.logs.String(), "serves on")
		})
	}
}
