package workspace_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/keel-agent/keel/adapters/tools/workspace"
)

// escapes are commands that print ESCAPED, or a canary, or change something outside, when they get out. %[1]s is the
// directory outside, %[2]s the workspace as the server sees it, %[3]d the process id of the server, %[4]d a port that it
// listens on. Each does no lasting harm if it succeeds.
var escapes = map[string]string{
	"absolute path":           `cat %[1]s/secret.txt`,
	"parent directories":      `cat ../other/secret.txt ../../u/s/secret.txt ../../../outside/secret.txt`,
	"path of the server":      `ls %[2]s/.. && cat %[2]s/../other/secret.txt`,
	"search":                  `find / -name secret.txt -exec cat {} + 2>/dev/null; grep -rs CANARY /tmp /home /root /var /run /etc /mnt /srv /dev/shm`,
	"symbolic link":           `ln -s %[1]s/secret.txt l && cat l; ln -s %[1]s d && cat d/secret.txt`,
	"hard link":               `ln %[1]s/secret.txt h && cat h`,
	"hard link by number":     `ln -P /proc/%[3]d/root%[1]s/secret.txt h2 && cat h2`,
	"root of init":            `cat /proc/1/root%[1]s/secret.txt`,
	"root of any process":     `cat /proc/*/root%[1]s/secret.txt`,
	"own root":                `cat /proc/self/root%[1]s/secret.txt`,
	"directory of a process":  `cat /proc/*/cwd/../outside/secret.txt /proc/*/cwd%[1]s/secret.txt`,
	"descriptors":             `for f in /proc/self/fd/* /dev/fd/*; do cat "$f/../secret.txt" "$f/other/secret.txt"; done`,
	"descriptors of others":   `cat /proc/[0-9]*/fd/*/secret.txt; ls -l /proc/%[3]d/fd && echo ESCAPED`,
	"inherited descriptors":   `ls -l /proc/self/fd > fds; grep -E ' ([4-9]|[1-9][0-9]+) ->' fds && echo ESCAPED`,
	"environment of others":   `cat /proc/*/environ | tr '\0' '\n' | grep CANARY`,
	"memory of the server":    `dd if=/proc/%[3]d/mem of=/dev/null count=1 && echo ESCAPED`,
	"the server's files":      `cat /proc/%[3]d/cmdline && echo ESCAPED`,
	"kill the server":         `kill -9 %[3]d && echo ESCAPED`,
	"signal the server":       `kill -0 %[3]d && echo ESCAPED; for p in /proc/[0-9]*; do grep -l keel $p/environ $p/maps; done 2>/dev/null | grep -v self && echo ESCAPED`,
	"write outside":           `echo pwned > %[1]s/pwned; echo pwned > %[1]s/secret.txt; mkdir %[1]s/dir`,
	"write to a session":      `echo pwned > ../other/pwned; echo pwned >> %[2]s/../other/secret.txt`,
	"append, truncate":        `truncate -s 0 %[1]s/secret.txt; : > %[1]s/secret.txt`,
	"remove":                  `rm -rf %[1]s %[2]s/../other`,
	"move away":               `mv %[1]s/secret.txt . && cat secret.txt`,
	"mode, owner, time":       `chmod 777 %[1]s/secret.txt %[1]s; chown 1:1 %[1]s/secret.txt; touch -t 200001010000 %[1]s/secret.txt`,
	"mode of the system":      `chmod --reference=/usr/bin/env /usr/bin/env && echo ESCAPED; touch -c -r /usr/bin/env /usr/bin/env && echo ESCAPED`,
	"system directories":      `for d in /usr /usr/bin /bin /etc /lib /; do echo x > $d/keel-pwned && echo ESCAPED; done`,
	"system settings":         `v=$(cat /proc/sys/kernel/core_pattern); echo "$v" > /proc/sys/kernel/core_pattern && echo ESCAPED; echo h > /proc/sysrq-trigger && echo ESCAPED`,
	"own limits":              `ulimit -u unlimited && ulimit -f unlimited && ulimit -d unlimited && echo ESCAPED`,
	"oom score of the server": `echo 1000 > /proc/%[3]d/oom_score_adj && echo ESCAPED`,
	"device file":             `mknod dev b 259 0 && echo ESCAPED; mknod mem c 1 1 && echo ESCAPED`,
	"disks":                   `head -c 1 /dev/vda /dev/sda /dev/nvme0n1 /dev/mem /dev/kmsg 2>/dev/null | grep -q . && echo ESCAPED`,
	"terminal":                `echo x > /dev/tty && echo ESCAPED; echo x > /dev/pts/0 && echo ESCAPED; test -c /dev/console && echo x > /dev/console && echo ESCAPED`,
	"mount":                   `mkdir -p m; mount -t tmpfs none m && echo ESCAPED && umount m; mount -o remount,bind,rw /workspace && echo ESCAPED`,
	"unmount":                 `umount -l /workspace && echo ESCAPED; umount -l /usr && echo ESCAPED`,
	"remount in a namespace":  `unshare -Urm sh -c 'mount -o remount,bind,rw /usr && echo x > /usr/keel-pwned && echo ESCAPED'`,
	"enter namespaces":        `nsenter -t %[3]d -a true && echo ESCAPED; nsenter -t 1 -m cat %[1]s/secret.txt`,
	"change the root":         `chroot /proc/1/root /bin/true && echo ESCAPED; chroot . /bin/true && echo ESCAPED`,
	"privileged programs":     `su -c true && echo ESCAPED; grep -q 'NoNewPrivs:.1' /proc/self/status || echo ESCAPED`,
	"capabilities":            `grep -E 'Cap(Prm|Eff|Amb):' /proc/self/status | grep -v ':.0000000000000000$' && echo ESCAPED`,
	"network of the server":   `exec 3<>/dev/tcp/127.0.0.1/%[4]d && echo ESCAPED`,
	"network":                 `exec 3<>/dev/tcp/192.0.2.1/80 && echo ESCAPED; grep -c : /proc/net/dev | grep -vx 1 && echo ESCAPED`,
	"unix socket":             `perl -MIO::Socket::UNIX -e 'print "ESCAPED" if IO::Socket::UNIX->new(Peer => "%[1]s/socket")'`,
	"abstract socket":         `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); print "ESCAPED" if connect(S, pack("S a*", AF_UNIX, "\0keel-%[3]d"))'`,
	"shared memory":           `ipcs -m | grep -q 0x && echo ESCAPED; ls /dev/mqueue/* && echo ESCAPED`,
	"files of passwords":      `cat /etc/shadow /root/.ssh/* /root/.bash_history && echo ESCAPED`,
	"docker":                  `ls /var/run/docker.sock /run && echo ESCAPED`,
	"kernel memory":           `head -c 1 /proc/kcore | grep -q . && echo ESCAPED; head -c 1 /proc/kallsyms >/dev/null; echo x > /proc/self/mem`,
	"case and unicode":        `cat ..／other/secret.txt ‥/other/secret.txt %[1]s/SECRET.TXT .%%2e/other/secret.txt`,
}

// TestCommandsCannotGetOut makes each attempt in each sandbox that works here.
func TestCommandsCannotGetOut(t *testing.T) {
	t.Setenv("KEEL_TEST_SECRET", canary)
	var listen net.ListenConfig
	tcp, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = tcp.Close() }()
	abstract, err := listen.Listen(t.Context(), "unix", fmt.Sprintf("@keel-%d", os.Getpid()))
	require.NoError(t, err)
	defer func() { _ = abstract.Close() }()
	segment, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	require.NoError(t, err)
	defer func() { _, _ = unix.SysvShmCtl(segment, unix.IPC_RMID, nil) }()
	inherited, err := unix.FcntlInt(tcpFile(t, tcp).Fd(), unix.F_DUPFD, 200) // as a service manager may leave one
	require.NoError(t, err)
	defer func() { _ = unix.Close(inherited) }()
	require.Greater(t, len(escapes), 40)

	eachSandbox(t, func(t *testing.T, c workspace.Config) {
		p := newPrison(t, c)
		t.Chdir(p.outside) // the path of a socket must be short
		socket, err := listen.Listen(context.Background(), "unix", "socket")
		require.NoError(t, err)
		defer func() { _ = socket.Close() }()
		p.before = p.surroundings()
		for name, script := range escapes {
			command := fmt.Sprintf(script+"%[5]s", p.outside, p.dir, os.Getpid(), tcp.Addr().(*net.TCPAddr).Port, "")
			text, _ := p.bash(command)
			require.NotContains(t, strings.ReplaceAll(text, command, ""), "ESCAPED", "%s: %s", name, text)
			p.holds(text, name)
			require.NoFileExists(t, "/usr/keel-pwned", name)
		}
		text, isError := p.bash("echo still > here; cat here")
		require.False(t, isError, text)
		require.Equal(t, "still\n", text)
	})
}

func tcpFile(t *testing.T, l net.Listener) *os.File {
	t.Helper()
	f, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestNetworkWhenAsked(t *testing.T) {
	working(t)
	var listen net.ListenConfig
	tcp, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = tcp.Close() }()
	command := fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d && echo connected", tcp.Addr().(*net.TCPAddr).Port)
	for _, network := range []bool{false, true} {
		r := newRig(t, workspace.Config{Bash: workspace.BashSandboxed, BashNetwork: network})
		text, isError := r.bash(command)
		require.Equal(t, network, !isError, text)
		require.Equal(t, network, strings.HasPrefix(text, "connected"), text)
	}
}

// TestTrapsOfCommands: what a command leaves in the workspace leads the other tools nowhere.
func TestTrapsOfCommands(t *testing.T) {
	eachShell(t, func(t *testing.T, c workspace.Config) {
		p := newPrison(t, c)
		text, isError := p.bash(fmt.Sprintf(`ln -s %[1]s/secret.txt link; ln -s %[1]s dirlink; ln -s ../other other; ln -s /proc/self/root root
			mkfifo pipe; ln -s /dev/zero zero; mkdir -p deep/$(printf 'd/%%.0s' {1..120}); printf 'x\n%%.0s' {1..100} > $'new\nline'`, p.outside))
		require.False(t, isError, text)
		for _, path := range []string{"link", "dirlink/secret.txt", "other/secret.txt", "root" + p.outside + "/secret.txt", "pipe", "zero"} {
			text, isError := p.run("read", arguments("path", path))
			require.True(t, isError, "%s: %s", path, text)
			p.holds(text, path)
			text, isError = p.run("write", arguments("path", path, "content", "pwned"))
			require.True(t, isError, "%s: %s", path, text)
			p.holds(text, path)
		}
		text, _ = p.run("grep", arguments("pattern", "CANARY|x"))
		p.holds(text, "grep")
		require.Contains(t, text, `"new\nline":1:x`)
		text, _ = p.run("ls", arguments("path", ""))
		require.Contains(t, text, "pipe (special)\n")
		text, _ = p.run("glob", arguments("pattern", "**"))
		p.holds(text, "glob")
		require.NoFileExists(t, filepath.Join(p.outside, "pwned"))
	})
}
