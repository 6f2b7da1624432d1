package wire

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/keel-agent/keel/ports"
)

// Client is what the providers of all wires have in common: it asks one backend, for answers and for its models, with the
// provider's key or a tenant's, and no error that it returns tells either. It is safe for concurrent use.
type Client struct {
	name    string
	backend *backend
	model   string
	list    ListModels

	first atomic.Pointer[string] // of the list, where no model is configured
}

// ClientConfig says what a client asks.
type ClientConfig struct {
	Name    string // the provider's, in events
	Backend BackendConfig
	Model   string     // that is asked for where a request names none; "" is the first one that the backend lists
	List    ListModels // nil for a backend without such a list
}

// ListModels reads the list of a backend's models. get returns the body at a path; its error is to be returned as it is.
type ListModels func(ctx context.Context, get func(path string) ([]byte, error)) ([]ports.Model, error)

// NewClient returns the client of cfg. It returns an error, which tells no value of cfg, when the base URL is not one of HTTP,
// or a header or the key is malformed.
func NewClient(cfg ClientConfig) (*Client, error) {
	b, err := newBackend(cfg.Backend)
	if err != nil {
		return nil, err
	}
	return &Client{name: cfg.Name, backend: b, model: cfg.Model, list: cfg.List}, nil
}

// Name returns the provider's name in events.
func (c *Client) Name() string { return c.name }

// Close closes the connections that no request uses, unless the HTTP client was given.
func (c *Client) Close() { c.backend.close() }

// Generation is one answer that a codec asks for.
type Generation interface {
	// Request returns the request for req, whose model is set. The error is a *ports.ProviderError.
	Request(req ports.ModelRequest) (Request, error)
	// Refused looks at the refusal of the last request, of which the backend tells status and body. It reports whether
	// Request makes another one of it now; else the refusal is final.
	Refused(status int, body []byte) bool
}

// Request is what is sent to a backend, and who reads its answer.
type Request struct {
	Path   string // below the base URL
	Body   any    // becomes JSON
	Answer Decoder
}

// Generate asks for the answer to req, as often as the backend refuses what g then does otherwise. See ports.Provider.
func (c *Client) Generate(ctx context.Context, req ports.ModelRequest, g Generation) (ports.Reply, error) {
	b, err := c.backend.as(req.Credential)
	if err != nil {
		return ports.Reply{Model: req.Model}, err
	}
	reply, err := c.generate(ctx, b, req, g)
	return reply, b.secrets.Redact(err)
}

func (c *Client) generate(ctx context.Context, b *backend, req ports.ModelRequest, g Generation) (ports.Reply, error) {
	if req.Model == "" {
		model, err := c.defaultModel(ctx, b)
		if err != nil {
			return ports.Reply{}, err
		}
		req.Model = model
	}
	for {
		r, err := g.Request(req)
		if err != nil {
			return ports.Reply{Model: req.Model}, err
		}
		body, err := Encode(r.Body)
		if err != nil {
			fault := &ports.ProviderError{Class: ports.Fatal, Code: "request", Message: "the request cannot be written: " + err.Error(), Err: err}
			return ports.Reply{Model: req.Model}, fault
		}
		reply, again, err := b.generate(ctx, r, body, req.Model, g.Refused)
		if !again {
			return reply, err
		}
	}
}

// Models lists what the backend lists for a credential, the configured model first even if the backend keeps it to
// itself. A backend without such a list (404, 405) has that one model, or none.
func (c *Client) Models(ctx context.Context, credential ports.Confidential) ([]ports.Model, error) {
	b, err := c.backend.as(credential)
	if err != nil {
		return nil, err
	}
	models, err := c.models(ctx, b)
	return models, b.secrets.Redact(err)
}

func (c *Client) models(ctx context.Context, b *backend) (found []ports.Model, err error) {
	if c.list != nil {
		found, err = c.list(ctx, func(path string) ([]byte, error) { return b.get(ctx, path) })
	}
	if fault := (*ports.ProviderError)(nil); errors.As(err, &fault) && (fault.Status == http.StatusNotFound || fault.Status == http.StatusMethodNotAllowed) {
		found, err = nil, nil
	}
	if err != nil || c.model == "" {
		return found, err
	}
	first := ports.Model{ID: c.model}
	if i := slices.IndexFunc(found, func(m ports.Model) bool { return m.ID == c.model }); i >= 0 {
		first = found[i]
		found = slices.Delete(found, i, i+1)
	}
	return slices.Insert(found, 0, first), nil
}

// defaultModel returns the configured model, or the first one that the backend lists for whoever asks as b. What it lists
// for the provider itself is asked once.
func (c *Client) defaultModel(ctx context.Context, b *backend) (string, error) {
	if c.model != "" {
		return c.model, nil
	}
	if id := c.first.Load(); id != nil && b == c.backend {
		return *id, nil
	}
	models, err := c.models(ctx, b)
	if err != nil {
		return "", err
	}
	if len(models) == 0 {
		return "", &ports.ProviderError{Class: ports.Fatal, Code: "no_model", Message: "no model is configured, and the backend lists none"}
	}
	if b == c.backend {
		c.first.Store(&models[0].ID)
	}
	return models[0].ID, nil
}
