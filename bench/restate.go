package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/ingress"
	"github.com/restatedev/sdk-go/server"
)

// restatePeer is a Restate server with its data in a directory of its own, and the workflow that it calls.
type restatePeer struct {
	proc     *exec.Cmd
	log      bytes.Buffer
	resident resident
	listens  map[string]string // addresses, by the server's own names
	service  *http.Server
	http     *http.Transport
	client   *ingress.Client
}

// restateWorkflow names the workflow and its one handler.
const restateWorkflow, restateHandler = "bench", "run"

// openRestate starts the server and offers it the workflow. The caller closes the peer.
func (b *bench) openRestate(ctx context.Context) (*restatePeer, error) {
	if !b.peers {
		return nil, errNoPeers
	}
	program, err := npmPeer("Restate", "@restatedev/restate-server-*/bin/restate-server")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "restate-")
	if err != nil {
		return nil, err
	}
	p := &restatePeer{http: &http.Transport{MaxIdleConnsPerHost: 1024}}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = p.serve(ctx)
	if err == nil {
		err = p.startServer(program, dir)
	}
	if err == nil {
		err = p.deploy(ctx)
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("restate: %w: %s", err, p.log.Bytes())
	}
	return p, nil
}

// serve offers the workflow.
func (p *restatePeer) serve(ctx context.Context) error {
	handler, err := server.NewRestate().WithLogger(slog.DiscardHandler, true).
		Bind(restate.NewWorkflow(restateWorkflow).Handler(restateHandler, restate.NewWorkflowHandler(threeRuns))).Handler()
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.service = &http.Server{Handler: handler, Addr: l.Addr().String(), Protocols: new(http.Protocols), ReadHeaderTimeout: 10 * time.Second}
	p.service.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = p.service.Serve(l) }()
	return nil
}

// threeRuns is a workflow whose steps give one kibibyte each.
func threeRuns(ctx restate.WorkflowContext, _ string) (string, error) {
	for range 3 {
		if _, err := restate.Run(ctx, func(restate.RunContext) (string, error) { return filler[:kibibyte], nil }); err != nil {
			return "", err
		}
	}
	return "done", nil
}

var restateListens = regexp.MustCompile(`"server\.port":(\d+),"server_name":"(http-ingress-server|admin-api-server)"`)

// startServer starts a server of four partitions, with fsync as is its default, and returns when it listens.
func (p *restatePeer) startServer(program, dir string) error {
	p.proc = exec.CommandContext(context.Background(), program, "--no-logo", "--log-format", "json", "--base-dir", dir, "--listen-mode", "tcp", "--bind-ip", "127.0.0.1",
		"--use-random-ports", "true")
	p.proc.Env = append(os.Environ(), "RESTATE_DEFAULT_NUM_PARTITIONS=4", "RESTATE_DISABLE_TELEMETRY=true")
	p.proc.Stderr = &p.log
	out, err := p.proc.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.proc.Start(); err != nil {
		return err
	}
	p.resident.pid = p.proc.Process.Pid
	p.listens = map[string]string{}
	for lines := bufio.NewScanner(out); len(p.listens) < 2; {
		if !lines.Scan() {
			return fmt.Errorf("the server did not start (%w)", lines.Err())
		}
		if found := restateListens.FindSubmatch(lines.Bytes()); found != nil {
			p.listens[string(found[2])] = "http://127.0.0.1:" + string(found[1])
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return nil
}

// deploy tells the server of the workflow, and returns when that answers through it.
func (p *restatePeer) deploy(ctx context.Context) error {
	client := &http.Client{Transport: p.http, Timeout: 30 * time.Second}
	p.client = ingress.NewClient(p.listens["http-ingress-server"], ingress.WithHttpClient(client))
	body := `{"uri":"http://` + p.service.Addr + `"}`
	for {
		err := postJSON(ctx, client, p.listens["admin-api-server"]+"/deployments", body)
		if err == nil {
			return p.run(ctx, 0)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func postJSON(ctx context.Context, client *http.Client, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", jsonType)
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("POST %s: %s: %s", url, res.Status, text)
	}
	return err
}

// run plays one workflow to its end.
func (p *restatePeer) run(ctx context.Context, _ int) error {
	_, err := ingress.Workflow[string, string](p.client, restateWorkflow, newID(), restateHandler).Request(ctx, filler[:kibibyte])
	return err
}

func (p *restatePeer) close() {
	if p.proc != nil && p.proc.Process != nil {
		_ = p.proc.Process.Kill()
		_ = p.proc.Wait()
	}
	p.http.CloseIdleConnections()
	if p.service != nil {
		_ = p.service.Close()
	}
}
