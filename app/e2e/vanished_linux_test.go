package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// giveUp is how long after something was written to a peer that acknowledges nothing its connection may still be there:
// the limit of 15 s, and what the kernel's own timers make of it.
const giveUp = 25 * time.Second

// K19, 3: a client whose host vanishes without a word is given up. The filter on its socket drops all that
// arrives before TCP sees it, so that nothing is acknowledged, nothing reset and no end told.
func TestK19VanishedClientIsGivenUp(t *testing.T) {
	t.Parallel()
	p := serveOne(t, newStore(t, "sqlite"), nil, "--provider", "fake")
	p.create(`{"id":"s1"}`)
	at, err := url.Parse(p.url)
	require.NoError(t, err)
	client, err := net.Dial("tcp", at.Host)
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	_, err = fmt.Fprintf(client, "GET /v1/sessions/s1/events/stream?after=0 HTTP/1.1\r\nHost: %s\r\n\r\n", at.Host)
	require.NoError(t, err)
	answer, err := bufio.NewReader(client).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, answer, "200 OK")
	require.Equal(t, "ESTABLISHED", stateTowards(t, at.Port(), client))

	raw, err := client.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	nothing := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing})
	}))
	require.NoError(t, failed)
	healthy := p.stream(t.Context(), "s1", "after=0")
	p.input("s1", `{"text":"hello","requestId":"r"}`)
	for range 3 {
		<-healthy
	}
	began := time.Now()
	require.Equal(t, "ESTABLISHED", stateTowards(t, at.Port(), client), "so far nothing has shown")
	require.Eventually(t, func() bool { return stateTowards(t, at.Port(), client) == "" }, giveUp, 100*time.Millisecond)
	t.Logf("given up after %s", time.Since(began))
	p.stop()
}

// stateTowards is the state of the server's end of a client's connection, "" when it is gone.
func stateTowards(t *testing.T, port string, client net.Conn) string {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	require.NoError(t, err)
	local, err := strconv.Atoi(port)
	require.NoError(t, err)
	remote := client.LocalAddr().(*net.TCPAddr).Port
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if strings.HasSuffix(f[1], fmt.Sprintf(":%04X", local)) && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", remote)) {
			if f[3] == "01" {
				return "ESTABLISHED"
			}
			return f[3]
		}
	}
	return ""
}
