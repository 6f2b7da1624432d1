package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/keel-agent/keel/app"
)

type eventsCmd struct {
	Tail tailCmd `cmd:"" help:"Print a session's events as JSON lines, and go on as new ones are committed."`
}

// clientFlags say which server to talk to, and as whom.
type clientFlags struct {
	Server    string `help:"Base URL of the server." default:"http://127.0.0.1:8420" env:"KEEL_SERVER"`
	Token     string `help:"Bearer token; by default the token file of a server on this machine, if there is one." env:"KEEL_TOKEN"`
	Store     string `help:"The store of that server, to find its token file." default:"sqlite:keel.db" env:"KEEL_STORE"`
	TokenFile string `help:"File of the token." env:"KEEL_TOKEN_FILE" placeholder:"FILE"`
}

// bearer returns the token to send, "" when none is known: the server may not want one.
func (f clientFlags) bearer() string {
	if f.Token != "" {
		return f.Token
	}
	return app.Config{Store: f.Store, TokenFile: f.TokenFile}.ReadToken()
}

type tailCmd struct {
	clientFlags

	Session  string `arg:"" help:"Session id."`
	After    int64  `help:"Print events after this seq." default:"0" placeholder:"N"`
	Partials bool   `help:"Print token-level frames too, as lines with a member partial."`
	Once     bool   `help:"Leave when the stream ends instead of connecting again."`
}

// errRefused is an answer that a retry cannot mend.
var errRefused = errors.New("the server refused")

// Run prints events until interrupted. A broken stream is taken up again after the last event printed.
func (t *tailCmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := bufio.NewWriter(os.Stdout)
	for wait := time.Second; ; {
		retry, err := t.follow(ctx, out)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errRefused), t.Once:
			return err
		case err != nil:
			fmt.Fprintf(os.Stderr, "keel: %v; trying again in %s\n", err, wait)
			retry, wait = wait, min(2*wait, 15*time.Second)
		default:
			wait = time.Second
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retry):
		}
	}
}

// follow reads one stream to its end and returns how long to wait before the next.
func (t *tailCmd) follow(ctx context.Context, out *bufio.Writer) (retry time.Duration, err error) {
	res, err := t.open(ctx)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, refusal(res)
	}
	retry = time.Second
	for e, err := range sse.Read(res.Body, &sse.ReadConfig{MaxEventSize: 64 << 20}) {
		if err != nil {
			return retry, fmt.Errorf("the stream broke: %w", err)
		}
		if e.Type == "drain" {
			retry = drainWait(e.Data, retry)
			continue
		}
		if err := t.print(out, e); err != nil {
			return 0, errors.Join(errRefused, err)
		}
	}
	return retry, nil
}

func (t *tailCmd) open(ctx context.Context) (*http.Response, error) {
	target, err := url.JoinPath(t.Server, "v1/sessions", url.PathEscape(t.Session), "events/stream")
	if err != nil {
		return nil, fmt.Errorf("--server: %w: %w", err, errRefused)
	}
	query := url.Values{"after": {strconv.FormatInt(t.After, 10)}}
	if t.Partials {
		query.Set("partials", "1")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target+"?"+query.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, errRefused)
	}
	if token := t.bearer(); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return http.DefaultClient.Do(req)
}

func (t *tailCmd) print(out *bufio.Writer, e sse.Event) error {
	line := e.Data
	if e.Type == "partial" {
		line = `{"partial":` + line + `}`
	} else if seq, err := strconv.ParseInt(e.LastEventID, 10, 64); err == nil {
		t.After = seq
	}
	if _, err := out.WriteString(line + "\n"); err != nil {
		return err
	}
	return out.Flush()
}

func drainWait(data string, otherwise time.Duration) time.Duration {
	var hint struct {
		RetryAfterMS int64 `json:"retry_after_ms"`
	}
	if json.Unmarshal([]byte(data), &hint) != nil || hint.RetryAfterMS <= 0 {
		return otherwise
	}
	return time.Duration(hint.RetryAfterMS) * time.Millisecond
}

// refusal returns the problem that the server answered with; it wraps errRefused when a retry is no use.
func refusal(res *http.Response) error {
	var p struct{ Code, Detail string }
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if json.Unmarshal(text, &p) != nil || p.Code == "" {
		p.Code, p.Detail = res.Status, string(text)
	}
	err := fmt.Errorf("%s: %s", p.Code, p.Detail)
	if res.StatusCode >= http.StatusInternalServerError || res.StatusCode == http.StatusTooManyRequests {
		return err
	}
	return fmt.Errorf("%w: %w", errRefused, err)
}
