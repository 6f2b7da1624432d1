package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What a sandbox shows of the system, read-only, as far as it exists.
var (
	systemDirs  = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"}
	systemFiles = []string{
		"/etc/alternatives", "/etc/ca-certificates", "/etc/group", "/etc/hosts", "/etc/ld.so.cache", "/etc/ld.so.conf",
		"/etc/ld.so.conf.d", "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/pki", "/etc/protocols",
		"/etc/resolv.conf", "/etc/services", "/etc/ssl",
	}
)

// sandboxes are those of Linux, the preferred one first.
func sandboxes(bash string, network bool) []Sandbox {
	return []Sandbox{
		tried("bubblewrap", bash, network, bubblewrap),
		tried("namespaces", bash, network, namespaces),
	}
}

const probeTimeout = 10 * time.Second

// tried is a sandbox whose probe is a command that runs in it.
func tried(name, bash string, network bool, wrap func(command) command) Sandbox {
	confined := func(c command) command {
		c.network = network
		return wrap(c)
	}
	return Sandbox{Name: name, wrap: confined, Probe: func() error {
		dir, err := os.MkdirTemp("", "keel-probe-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		sh := &shell{name, bash, confined}
		out, err := sh.run(context.Background(), dir, `echo works > probe && cat probe`, probeTimeout)
		if err == nil && strings.TrimSpace(out) != "works" {
			err = errors.New(out)
		}
		return err
	}}
}

// bubblewrap runs a command by the program bwrap.
func bubblewrap(c command) command {
	program, err := exec.LookPath("bwrap")
	if err != nil {
		program = "bwrap" // which fails to start
	}
	args := []string{
		program, "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--uid", insideID, "--gid", insideID,
	}
	if c.network {
		args = append(args, "--share-net")
	}
	for _, dir := range systemDirs {
		if to, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", to, dir)
		} else {
			args = append(args, "--ro-bind-try", dir, dir)
		}
	}
	for _, file := range systemFiles {
		args = append(args, "--ro-bind-try", file, file)
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", c.workspace, inSandbox)
	// bwrap leaves the settings in /proc/sys to a server that is root.
	args = append(args, "--remount-ro", "/proc", "--remount-ro", "/", "--chdir", inSandbox, "--")
	c.args, c.env, c.dir = append(args, c.args...), homeInside(c.env), "/"
	return c
}

const (
	insideID  = "1000" // user and group inside a sandbox; files that they make belong to the server's
	insideUID = 1000
)

func homeInside(env []string) []string {
	moved := []string{"HOME=" + inSandbox}
	for _, v := range env {
		if !strings.HasPrefix(v, "HOME=") {
			moved = append(moved, v)
		}
	}
	return moved
}

// namespaces runs a command by this very program, which builds the sandbox from inside; see enter.
func namespaces(c command) command {
	network := "no"
	if c.network {
		network = "yes"
	}
	c.args = append([]string{"/proc/self/exe", c.workspace, network}, c.args...)
	c.name, c.env, c.dir = enterName, homeInside(c.env), "/"
	c.attr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if !c.network {
		c.attr.Cloneflags |= unix.CLONE_NEWNET
	}
	c.attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: insideUID, HostID: os.Geteuid(), Size: 1}}
	c.attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: insideUID, HostID: os.Getegid(), Size: 1}}
	c.attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
	return c
}

// enterName is the name under which this program starts as the first process of a sandbox.
const enterName = "keel-sandbox"

func init() {
	if len(os.Args) > 3 && os.Args[0] == enterName && os.Getpid() == 1 {
		err := enter(os.Args[1], os.Args[2] == "yes", os.Args[3:])
		fmt.Fprintln(os.Stderr, "the sandbox cannot be built:", err)
		os.Exit(125)
	}
}

// enter makes a root of its own out of mounts, gives up every privilege, and becomes the program args. It returns only
// when that fails. It runs on the main thread, alone in its namespaces.
func enter(workspace string, network bool, args []string) error {
	if !network {
		if err := loopbackUp(); err != nil {
			return fmt.Errorf("the loopback interface: %w", err)
		}
	}
	if err := buildRoot(workspace); err != nil {
		return err
	}
	if err := changeRoot(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Exec(args[0], args, os.Environ()) // the user is not 0, so that no capability is left behind it
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo)
}

// newRoot is where the root is built; what lies there is hidden from then on.
const newRoot = "/tmp"

func buildRoot(workspace string) error {
	// Opened before newRoot is covered, which it may lie in.
	from, err := unix.Open(workspace, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the workspace: %w", err)
	}
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := mount("tmpfs", newRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=0755"); err != nil {
		return err
	}
	for _, dir := range systemDirs {
		if err := showDir(dir); err != nil {
			return err
		}
	}
	devices := []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
	for _, file := range append(devices, systemFiles...) {
		if err := show(file, strings.HasPrefix(file, "/dev/")); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(to, newRoot+"/dev/"+name); err != nil {
			return err
		}
	}
	if err := bind(fmt.Sprintf("/proc/self/fd/%d", from), inSandbox, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
		return err
	}
	_ = unix.Close(from)
	// What is writable there is for root alone to write, and the server may be that.
	if err := mountNew("proc", "/proc", unix.MS_RDONLY, ""); err != nil {
		return err
	}
	for _, dir := range []string{"/tmp", "/dev/shm"} {
		if err := mountNew("tmpfs", dir, 0, "size=512m,mode=1777"); err != nil {
			return err
		}
	}
	return mount("", newRoot, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
}

// changeRoot makes newRoot the root and lets go of the old one.
func changeRoot() error {
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root lies on the new one
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir(inSandbox)
}

// showDir shows a directory of the system, or the link that it is.
func showDir(dir string) error {
	if to, err := os.Readlink(dir); err == nil {
		return os.Symlink(to, newRoot+dir)
	}
	return show(dir, false)
}

// show binds what exists of the system to its place below newRoot; only devices can be written to.
func show(name string, device bool) error {
	info, err := os.Stat(name)
	if err != nil {
		return nil //nolint:nilerr // what the system has not, the sandbox has not
	}
	if !info.IsDir() {
		if err := os.MkdirAll(newRoot+filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(newRoot+name, nil, 0o600); err != nil {
			return err
		}
	}
	if device {
		return bind(name, name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	}
	return bind(name, name, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// bind binds a tree to target below newRoot, with attributes that all mounts in it get.
func bind(source, target string, attributes uint64) error {
	target = newRoot + target
	if _, err := os.Lstat(target); err != nil {
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
	}
	if err := mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	err := unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
	if err != nil {
		return fmt.Errorf("mount_setattr %s: %w", target, err)
	}
	return nil
}

func mountNew(kind, target string, flags uintptr, data string) error {
	if err := os.MkdirAll(newRoot+target, 0o755); err != nil {
		return err
	}
	return mount(kind, newRoot+target, kind, flags|unix.MS_NOSUID|unix.MS_NODEV, data)
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	return nil
}
