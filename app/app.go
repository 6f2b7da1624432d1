package app

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/dig"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
	"go.uber.org/zap"
)

// New returns the application that serves c. Start it with Run, which ends at SIGINT or SIGTERM after a drain.
func New(c Config, log *zap.Logger) *fx.App {
	return fx.New(Options(c, log))
}

// Options is the whole object graph of a server.
func Options(c Config, log *zap.Logger) fx.Option {
	return fx.Options(
		parts(c, log),
		fx.WithLogger(func(l *zap.Logger) fxevent.Logger { return quietEvents{l.Named("fx")} }),
		fx.StopTimeout(c.drainGrace()+stopMargin),
		fx.Invoke(func(*server) {}),
	)
}

// parts is everything that can be built, with nothing that asks for it.
func parts(c Config, log *zap.Logger) fx.Option {
	return fx.Options(
		fx.Supply(c, log), systemModule, storeModule(c), providersModule, toolsModule, runnerModule, apiModule,
	)
}

const (
	defaultDrainGrace = 30 * time.Second
	stopMargin        = 15 * time.Second // for what follows the attempts: streams, requests, the store
)

func (c Config) drainGrace() time.Duration {
	if c.DrainGrace > 0 {
		return c.DrainGrace
	}
	return defaultDrainGrace
}

// quietEvents logs what goes wrong in fx, and nothing else.
type quietEvents struct{ log *zap.Logger }

func (q quietEvents) LogEvent(e fxevent.Event) {
	switch e := e.(type) {
	case *fxevent.OnStopExecuted:
		if e.Err != nil {
			q.log.Error("could not stop", zap.String("hook", e.CallerName), zap.Error(e.Err))
		}
	case *fxevent.RollingBack:
		q.log.Debug("start failed, rolling back", zap.Error(e.StartErr))
	}
}

// RunToEnd starts a, waits for SIGINT, SIGTERM or a failure, and stops it. It returns nil after an orderly end. A signal
// that comes while it starts is not lost either.
func RunToEnd(a *fx.App) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	start, cancel := context.WithTimeout(context.Background(), a.StartTimeout())
	defer cancel()
	if err := a.Start(start); err != nil {
		return dig.RootCause(err)
	}
	exitCode := 0
	select {
	case <-signals:
	case end := <-a.Wait():
		exitCode = end.ExitCode
	}
	stop, cancelStop := context.WithTimeout(context.Background(), a.StopTimeout())
	defer cancelStop()
	if err := a.Stop(stop); err != nil {
		return err
	}
	if exitCode != 0 {
		return errors.New("the server failed; the log says why")
	}
	return nil
}

// Graph returns the object graph of a server in DOT. Nothing is opened or started.
func Graph(c Config) (string, error) {
	var dot fx.DotGraph
	a := fx.New(parts(c, zap.NewNop()), fx.NopLogger, fx.Populate(&dot))
	return string(dot), a.Err()
}
