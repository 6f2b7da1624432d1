package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/keel-agent/keel/app"
)

// clientFlags say which server to talk to, and as whom.
type clientFlags struct {
	Server    string `help:"Base URL of the server." default:"http://127.0.0.1:8420" env:"KEEL_SERVER"`
	Token     string `help:"Bearer token; by default the token file of a server on this machine, if there is one." env:"KEEL_TOKEN"`
	Store     string `help:"The store of that server, to find its token file." default:"sqlite:keel.db" env:"KEEL_STORE"`
	TokenFile string `help:"File of the token." env:"KEEL_TOKEN_FILE" placeholder:"FILE"`
}

// Validate refuses a base URL that can be no server's.
func (f clientFlags) Validate() error {
	if u, err := url.Parse(f.Server); err != nil || !isBase(u) {
		return fmt.Errorf("--server %q: want http://HOST:PORT or https://HOST", f.Server)
	}
	return nil
}

func isBase(u *url.URL) bool {
	_, err := strconv.ParseUint(cmp.Or(u.Port(), "0"), 10, 16)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.RawQuery+u.Fragment == ""
}

// bearer returns the token to send, "" when none is known: the server may not want one.
func (f clientFlags) bearer() string {
	if f.Token != "" {
		return f.Token
	}
	return app.Config{Store: f.Store, TokenFile: f.TokenFile}.ReadToken()
}

// whichToken says where the token that was refused came from.
func (f clientFlags) whichToken() string {
	const help = "; name another one with --token, --token-file or --store"
	if f.Token != "" {
		return "the token is that of --token or KEEL_TOKEN" + help
	}
	path, err := app.Config{Store: f.Store, TokenFile: f.TokenFile}.TokenPath()
	switch {
	case err != nil:
		return "there is no token to present" + help
	case f.bearer() == "":
		return "there is no token in " + path + help
	default:
		return "the token is that of " + path + help
	}
}

// callTimeout bounds a request whose answer is short.
const callTimeout = 30 * time.Second

// errRefused is an answer that a retry cannot mend.
var errRefused = errors.New("the server refused")

// hopeless is any other error that a retry cannot mend.
type hopeless struct{ error }

func (h hopeless) Unwrap() error        { return h.error }
func (h hopeless) Is(target error) bool { return target == errRefused }

// problem is an answer other than success.
type problem struct {
	status              int
	code, field, detail string
}

func (p *problem) Error() string {
	text := p.code + ": " + p.detail
	if p.field != "" {
		text = p.code + " (" + p.field + "): " + p.detail
	}
	if p.Is(errRefused) {
		text = errRefused.Error() + ": " + text
	}
	return text
}

// Is reports whether a retry is no use, when it is asked about errRefused.
func (p *problem) Is(target error) bool {
	return target == errRefused && p.status < http.StatusInternalServerError && p.status != http.StatusTooManyRequests
}

// refusal returns the problem that the server answered with.
func refusal(res *http.Response) error {
	var p struct{ Code, Field, Detail string }
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if json.Unmarshal(text, &p) != nil || p.Code == "" {
		p.Code, p.Field, p.Detail = res.Status, "", beginning(text)
		if res.StatusCode == http.StatusNotFound {
			p.Detail += "; does --server name a keel server?"
		}
	}
	if to := res.Header.Get("Location"); to != "" {
		p.Detail = "it leads to " + to + "; name the server behind it with --server"
	}
	return &problem{res.StatusCode, p.Code, p.Field, p.Detail}
}

// missing reports whether err is the word of a Keel server that there is no such session.
func missing(err error) bool {
	p, ok := errors.AsType[*problem](err)
	return ok && p.code == "not_found"
}

// beginning returns the beginning of an answer that is not the API's, fit for one line.
func beginning(text []byte) string {
	const enough = 200
	line := strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "\uFFFD")), " ")
	if runes := []rune(line); len(runes) > enough {
		line = string(runes[:enough]) + "…"
	}
	return oneLine(line)
}

// errStranger is returned for an answer that no Keel server gives.
var errStranger = hopeless{errors.New("no answer of a keel server; does --server name one?")}

// client leaves redirects to the user: they would turn what is said into what is asked.
var client = http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// permanent reports whether a connection failed for a reason that another try will meet again.
func permanent(err error) bool {
	var untrusted *tls.CertificateVerificationError
	return errors.As(err, &untrusted) || errors.Is(err, http.ErrSchemeMismatch)
}

// request makes a request below /v1/sessions and returns a successful answer, whose body the caller closes.
func (f clientFlags) request(ctx context.Context, method string, body any, query url.Values, header http.Header, path ...string) (*http.Response, error) {
	req, err := f.compose(ctx, method, body, query, header, path)
	if err != nil {
		return nil, hopeless{err}
	}
	res, err := client.Do(req)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("nothing listens at %s; is keel serve running? (%w)", f.Server, err)
	case err != nil && permanent(err):
		return nil, hopeless{err}
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusUnauthorized:
		defer res.Body.Close()
		return nil, fmt.Errorf("%w (%s)", refusal(res), f.whichToken())
	case res.StatusCode >= http.StatusMultipleChoices:
		defer res.Body.Close()
		return nil, refusal(res)
	}
	return res, nil
}

// compose returns a request below /v1/sessions.
func (f clientFlags) compose(ctx context.Context, method string, body any, query url.Values, header http.Header, path []string) (*http.Request, error) {
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	target, err := url.JoinPath(f.Server, append([]string{"v1/sessions"}, path...)...)
	if err != nil {
		return nil, fmt.Errorf("--server: %w", err)
	}
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, f.authorize(req)
}

func (f clientFlags) authorize(req *http.Request) error {
	token := f.bearer()
	if strings.ContainsFunc(token, unicode.IsControl) {
		return errors.New("the token has control characters in it; " + f.whichToken())
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// call makes a request and reads its answer into out.
func (f clientFlags) call(ctx context.Context, method string, body, out any, path ...string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := f.request(ctx, method, body, nil, nil, path...)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	err = json.NewDecoder(res.Body).Decode(out)
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return errStranger
	}
	return err
}
