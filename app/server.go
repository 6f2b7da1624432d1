package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/fx"
	"go.uber.org/zap"

	"github.com/keel-agent/keel/adapters/httpapi"
	"github.com/keel-agent/keel/adapters/sse"
	"github.com/keel-agent/keel/app/runner"
	"github.com/keel-agent/keel/app/service"
	"github.com/keel-agent/keel/ports"
)

// drainer holds the two signals of an orderly end: ready is closed at once, streams after the attempts ended.
type drainer struct {
	ready   chan struct{}
	streams chan struct{}
}

func newDrainer() *drainer { return &drainer{ready: make(chan struct{}), streams: make(chan struct{})} }

// server listens, and ends in order: not ready, attempts, streams, requests.
type server struct {
	cfg    Config
	log    *zap.Logger
	drain  *drainer
	runner *runner.Runner
	http   *http.Server
	failed fx.Shutdowner
}

type serverDeps struct {
	fx.In

	Config    Config
	Log       *zap.Logger
	Service   *service.Service
	Streams   *sse.Handler
	Auth      httpapi.Authenticator
	IDs       ports.IDs
	Drainer   *drainer
	Runner    *runner.Runner
	Lifecycle fx.Lifecycle
	Shutdown  fx.Shutdowner
}

func newServer(d serverDeps) *server {
	handler := httpapi.New(httpapi.Config{
		Service: d.Service, Streams: d.Streams, Auth: d.Auth, IDs: d.IDs, Log: d.Log, ServiceVersion: "keel-agent/" + Version,
		AllowedHosts: d.Config.allowedHosts(), MaxBody: d.Config.maxBody(), Draining: d.Drainer.ready,
	})
	s := &server{
		cfg: d.Config, log: d.Log, drain: d.Drainer, runner: d.Runner, failed: d.Shutdown,
		http: &http.Server{
			Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
			ErrorLog: zap.NewStdLog(d.Log.Named("http")),
		},
	}
	d.Lifecycle.Append(fx.Hook{OnStart: s.start, OnStop: s.stop})
	return s
}

func (s *server) start(ctx context.Context) error {
	l, err := httpapi.Listen(ctx, s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", s.cfg.Listen, err)
	}
	if err := s.runner.Start(ctx); err != nil {
		return errors.Join(err, l.Close())
	}
	go func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the listener failed", zap.Error(err))
			_ = s.failed.Shutdown(fx.ExitCode(1))
		}
	}()
	s.cfg.announce(l.Addr())
	return nil
}

// stop drains. The store is closed after it, by the hook of its own module.
func (s *server) stop(ctx context.Context) error {
	s.log.Info("draining", zap.Duration("grace", s.cfg.drainGrace()))
	close(s.drain.ready)
	attempts, cancel := context.WithTimeout(ctx, s.cfg.drainGrace())
	defer cancel()
	err := s.runner.Drain(attempts)
	close(s.drain.streams)
	requests, cancelRequests := context.WithTimeout(ctx, stopMargin/2)
	defer cancelRequests()
	err = errors.Join(err, s.shutdown(requests))
	s.log.Info("drained")
	return err
}

// shutdown lets requests end until ctx does. What then remains is cut, which is no failure of this process: a client
// that dawdles may not decide how it ends.
func (s *server) shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err == nil || ctx.Err() == nil {
		return err
	}
	s.log.Warn("connections cut")
	return s.http.Close()
}
