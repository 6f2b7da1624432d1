package app

import (
	"context"
	"time"

	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
	"go.uber.org/zap"
)

// New returns the application that serves c. Start and Stop it; Serve does so for a whole process.
func New(c Config, log *zap.Logger) *fx.App {
	return fx.New(Options(c, log))
}

// Options is the whole object graph of a server.
func Options(c Config, log *zap.Logger) fx.Option {
	return options(c, log, new(socket), newDrainer(), opening{ctx: context.Background()})
}

func options(c Config, log *zap.Logger, s *socket, d *drainer, o opening) fx.Option {
	return fx.Options(
		parts(c, log, s, d, o),
		fx.WithLogger(func(l *zap.Logger) fxevent.Logger { return quietEvents{l.Named("fx")} }),
		fx.StopTimeout(c.drainGrace()+stopMargin),
		fx.Invoke(func(*server) {}),
	)
}

// parts is everything that can be built, with nothing that asks for it.
func parts(c Config, log *zap.Logger, s *socket, d *drainer, o opening) fx.Option {
	return fx.Options(
		fx.Supply(c, log, s, d, o), systemModule, storeModule(c), secretsModule, providersModule, modelsModule, toolsModule(c), runnerModule, apiModule,
		crashPoints,
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

// Graph returns the object graph of a server in DOT. Nothing is opened or started.
func Graph(c Config) (string, error) {
	var dot fx.DotGraph
	a := fx.New(parts(c, zap.NewNop(), new(socket), newDrainer(), opening{}), fx.NopLogger, fx.Populate(&dot))
	return string(dot), a.Err()
}
