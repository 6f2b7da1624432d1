package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/mattn/go-isatty"
	"go.uber.org/dig"
	"go.uber.org/fx"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/httpapi"
	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/ports"
)

// Serve serves c until SIGINT or SIGTERM and drains then; the same signal again ends the drain's grace. At SIGHUP it
// starts a successor and drains once that is able to take over (ADR 9). It returns nil after an orderly end.
func Serve(c Config, log *zap.Logger) error {
	p := process{log: log, socket: new(socket), signals: make(chan os.Signal, 8)}
	defer p.listenToSignals()()
	elder, file := handed()
	p.elder = elder
	defer elder.leave()
	err := p.prepare(c, file)
	if err == nil {
		err = p.serve()
	}
	if err != nil {
		elder.tell(sayFailed + err.Error())
	}
	return err
}

// process is what outlives a server: when a successor fails, another server takes up the same socket.
type process struct {
	cfg     Config
	log     *zap.Logger
	socket  *socket
	elder   *predecessor // nil unless this process is a successor that does not serve yet
	signals chan os.Signal
}

// listenToSignals returns what ends it. Where SIGHUP says that the terminal is gone it is a reason to end like others.
func (p *process) listenToSignals() (stop func()) {
	signal.Notify(p.signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) && !isatty.IsTerminal(os.Stdin.Fd()) {
		signal.Notify(p.signals, syscall.SIGHUP)
	}
	return func() { signal.Stop(p.signals) }
}

// prepare takes over a socket that was handed on, and looks for what could fail.
func (p *process) prepare(c Config, file *os.File) error {
	p.cfg = c
	origin := "the predecessor"
	if p.elder == nil {
		var err error
		if file, err = activated(); err != nil {
			return err
		}
		origin = "the service manager"
	}
	if file == nil {
		return nil
	}
	address, err := p.socket.adopt(file, origin)
	if err != nil {
		return err
	}
	p.cfg.Listen = address
	if err := p.cfg.Validate(); err != nil {
		return fmt.Errorf("the socket from %s: %w", origin, err)
	}
	p.log.Info("listening on an inherited socket, --listen is not used", zap.String("address", address), zap.String("from", origin))
	if p.elder == nil {
		return nil
	}
	return p.cfg.check(p.log)
}

// checked is what check builds.
type checked struct {
	fx.In

	Providers     *runner.Providers
	Authenticator httpapi.Authenticator
	Tools         []ports.Tools `group:"tools"`
}

// check finds out what would keep c from being served, as far as that shows beside a process that serves its store.
func (c Config) check(log *zap.Logger) error {
	err := fx.New(
		fx.Supply(c, log), systemModule, providersModule, toolsModule(c), fx.Provide(Config.authenticator, Config.unopenedVault), fx.NopLogger,
		fx.Invoke(func(checked) {}),
	).Err()
	if err != nil {
		return dig.RootCause(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	return checkSchema(ctx, c)
}

// serve serves until an end that no failed successor takes back.
func (p *process) serve() error {
	for {
		next, err := p.life()
		if err != nil || next == nil {
			return err
		}
		err = p.succeeded(next)
		if err == nil {
			return nil
		}
		p.log.Error("the successor failed, this process serves on", zap.Error(err))
	}
}

// life is one server from its start to the end of its drain. It returns the successor that the drain made room for, nil
// when the process shall end.
func (p *process) life() (*successor, error) {
	d := newDrainer()
	a, err := p.start(d)
	if a == nil {
		return nil, err
	}
	p.begun()
	next, failed := p.untilEnd(a, d)
	if next == nil {
		p.notify(daemon.SdNotifyStopping)
	}
	next, err = p.drain(a, d, next)
	return next, errors.Join(failed, err)
}

// begun tells those concerned that this process serves. Of a successor the service manager hears from its predecessor.
func (p *process) begun() {
	if p.elder == nil {
		p.notify(daemon.SdNotifyReady)
		return
	}
	p.elder.tell(sayReady)
	p.elder.leave()
	p.elder = nil
}

// start returns a running server, none when a signal ended its waiting for the store.
func (p *process) start(d *drainer) (*fx.App, error) {
	ctx, done := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer done()
	o := opening{ctx: ctx, wait: p.cfg.StoreWait}
	if p.elder != nil {
		o.wait = max(o.wait, p.cfg.drainGrace()+stopMargin)
		o.waiting = func() { p.elder.tell(sayWaiting) }
	}
	a := fx.New(options(p.cfg, p.log, p.socket, d, o))
	start, cancel := context.WithTimeout(context.Background(), a.StartTimeout())
	defer cancel()
	err := a.Start(start)
	if errors.Is(err, errInterrupted) {
		return nil, nil
	}
	if err != nil {
		return nil, dig.RootCause(err)
	}
	return a, nil
}

var errServerFailed = errors.New("the server failed; the log says why")

// untilEnd waits for a reason to drain: a signal, a failure, or a successor that is able to take over.
func (p *process) untilEnd(a *fx.App, d *drainer) (*successor, error) {
	failed := a.Wait()
	var next *successor
	for {
		select {
		case s := <-p.signals:
			switch {
			case s != syscall.SIGHUP:
				next.stop()
				return nil, nil
			case next != nil:
				p.log.Warn("a successor is on its way already")
			default:
				next = p.beginSuccession()
			}
		case end := <-failed:
			next.stop()
			if end.ExitCode != 0 {
				return nil, errServerFailed
			}
			return nil, nil
		case word := <-next.word():
			next.hear(word)
			d.successor = next.state
			return next, nil
		case <-next.end():
			p.log.Error("no hand-over, this process serves on", zap.Error(next.err))
			p.notify(daemon.SdNotifyReady)
			next = nil
		}
	}
}

// beginSuccession starts a successor. It returns nil when that is impossible.
func (p *process) beginSuccession() *successor {
	p.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	next, err := p.newSuccessor()
	if err != nil {
		p.log.Error("no hand-over, this process serves on", zap.Error(err))
		p.notify(daemon.SdNotifyReady)
		return nil
	}
	p.log.Info("started a successor", zap.Int("pid", next.cmd.Process.Pid))
	return next
}

func (p *process) newSuccessor() (*successor, error) {
	if err := p.cfg.canSucceed(os.Getpid()); err != nil {
		return nil, err
	}
	return startSuccessor(p.socket)
}

// canSucceed returns why nobody can take over from the process pid, nil when somebody can.
func (c Config) canSucceed(pid int) error {
	kind, _, err := c.storeScheme()
	switch {
	case err != nil:
		return err
	case kind == storeMemory:
		return errors.New("--store memory: ends with its process")
	case pid == 1:
		return errors.New("process 1 takes its container along when it ends")
	}
	return nil
}

// drain stops a. A signal to end ends the patience with attempts and clients, and a succession that is not complete.
func (p *process) drain(a *fx.App, d *drainer, next *successor) (*successor, error) {
	stop, cancel := context.WithTimeout(context.Background(), a.StopTimeout())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- a.Stop(stop) }()
	for {
		select {
		case err := <-stopped:
			return next, err
		case s := <-p.signals:
			if s == syscall.SIGHUP {
				p.log.Warn("no hand-over: this process is draining")
				continue
			}
			p.log.Warn("signalled again, handing back what runs")
			d.hurry()
			if d.successor == waiting {
				next.stop()
			}
			if d.successor != serving {
				next = nil
			}
		}
	}
}

// succeeded waits until the successor serves, and makes it the main process of the service. An error means that this
// process has to serve on.
func (p *process) succeeded(next *successor) error {
	late := time.AfterFunc(wordLimit, next.kill)
	defer late.Stop()
	for {
		select {
		case <-next.end():
			if next.relieved() {
				return nil
			}
			return next.err
		default:
		}
		if next.state == serving {
			break
		}
		select {
		case word := <-next.word():
			next.hear(word)
		case <-next.end():
		case s := <-p.signals:
			if s != syscall.SIGHUP {
				next.stop()
				return nil
			}
		}
	}
	p.log.Info("handed over", zap.Int("pid", next.cmd.Process.Pid))
	p.notify(fmt.Sprintf("MAINPID=%d\n%s", next.cmd.Process.Pid, daemon.SdNotifyReady))
	return nil
}

// notify tells the service manager, where there is one that wants to know (NOTIFY_SOCKET).
func (p *process) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		p.log.Warn("could not tell the service manager", zap.String("state", state), zap.Error(err))
	}
}
