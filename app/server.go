package app

import (
	"context"
	"errors"
	"net"
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

// server listens, and ends in order: not ready, attempts, streams, requests.
type server struct {
	cfg    Config
	log    *zap.Logger
	drain  *drainer
	socket *socket
	runner *runner.Runner
	http   *http.Server
	failed fx.Shutdowner

	listener net.Listener
	served   chan struct{} // closed when nothing more is accepted
	conns    openConns
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
	Socket    *socket
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
		cfg: d.Config, log: d.Log, drain: d.Drainer, socket: d.Socket, runner: d.Runner, failed: d.Shutdown,
		http: &http.Server{
			Handler:           d.Drainer.lastOnes(handler),
			ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
			ErrorLog: zap.NewStdLog(d.Log.Named("http")),
		},
	}
	s.http.ConnState = s.conns.note
	d.Lifecycle.Append(fx.Hook{OnStart: s.start, OnStop: s.stop})
	return s
}

func (s *server) start(ctx context.Context) error {
	l, err := s.socket.listen(ctx, s.cfg)
	if err != nil {
		return err
	}
	if err := s.runner.Start(ctx); err != nil {
		return errors.Join(err, l.Close())
	}
	s.listener, s.served = l, make(chan struct{})
	go s.serve(l)
	s.cfg.announce(l.Addr())
	return nil
}

func (s *server) serve(l net.Listener) {
	defer close(s.served)
	err := s.http.Serve(httpapi.Patient(l))
	if s.drain.draining() { // it was closed on purpose
		return
	}
	s.log.Error("the listener failed", zap.Error(err))
	_ = s.failed.Shutdown(fx.ExitCode(1))
}

// stop drains. Until attempts and streams have ended, connections are accepted unless a successor does so already. The
// store is closed after it, by the hook of its own module.
func (s *server) stop(ctx context.Context) error {
	s.log.Info("draining", zap.Duration("grace", s.cfg.drainGrace()))
	close(s.drain.ready)
	if s.drain.successor == serving {
		s.stopAccepting()
	}
	attempts, cancelAttempts := s.drain.patiently(ctx, s.cfg.drainGrace(), 0)
	defer cancelAttempts()
	err := s.runner.Drain(attempts)
	close(s.drain.streams)
	lasts, cancelLasts := s.drain.patiently(ctx, lingering, 0)
	defer cancelLasts()
	s.conns.none(lasts, http.StateNew, http.StateActive, http.StateIdle)
	if s.drain.successor == none {
		s.socket.close()
	}
	s.stopAccepting()
	requests, cancelRequests := s.drain.patiently(ctx, stopMargin/2, hurryLimit)
	defer cancelRequests()
	err = errors.Join(err, s.finish(requests))
	s.log.Info("drained")
	return err
}

// stopAccepting returns when every connection that was accepted is known.
func (s *server) stopAccepting() {
	_ = s.listener.Close()
	<-s.served
}

// finish answers what was accepted, until ctx ends. What then remains is cut, which is no failure of this process: a
// client that dawdles may not decide how it ends. (http.Server.Shutdown drops requests that it has not read yet.)
func (s *server) finish(ctx context.Context) error {
	fresh, cancel := context.WithTimeout(ctx, lingering)
	defer cancel()
	s.conns.none(fresh, http.StateNew)
	if !s.conns.none(ctx, http.StateActive) {
		s.log.Warn("connections cut")
	}
	return s.http.Close()
}
