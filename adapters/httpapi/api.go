package httpapi

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Service is what the handlers ask for. Errors are those of domain and ports. A limit of 0 means the default, larger
// ones than allowed are clamped; an empty cursor means the first page, an empty next that there is none.
type Service interface {
	CreateSession(ctx context.Context, tenant string, request domain.Payload) (domain.Outcome, domain.Totals, error)
	GetSession(ctx context.Context, ref domain.SessionRef) (domain.Outcome, domain.Totals, error)
	ListSessions(ctx context.Context, q ports.SessionQuery, cursor string) (items []domain.Session, active map[string]domain.Run, next string, err error)
	PatchSession(ctx context.Context, ref domain.SessionRef, patch domain.Payload) (domain.Outcome, domain.Totals, error)
	CloseSession(ctx context.Context, ref domain.SessionRef) (domain.Outcome, domain.Totals, error)

	SubmitInput(ctx context.Context, ref domain.SessionRef, input domain.Payload) (domain.Outcome, error)
	AppendEvent(ctx context.Context, ref domain.SessionRef, envelope domain.Payload) (domain.Outcome, error)
	EnsureRun(ctx context.Context, ref domain.SessionRef) (*domain.Run, error)
	Compact(ctx context.Context, ref domain.SessionRef) (*domain.Run, error)
	Cancel(ctx context.Context, ref domain.SessionRef, request domain.Payload) (*domain.Run, error)

	Events(ctx context.Context, ref domain.SessionRef, after domain.Seq, limit int) (events []domain.Event, more bool, err error)
	Messages(ctx context.Context, ref domain.SessionRef, cursor string, limit int) (entries []domain.Entry, waiting []domain.Seq, next string, err error)
	NewestMessages(ctx context.Context, ref domain.SessionRef, cursor string, limit int) (entries []domain.Entry, waiting []domain.Seq, next string, err error)
	Runs(ctx context.Context, ref domain.SessionRef, cursor string, limit int) (runs []domain.Run, next string, err error)

	ModelSettings(ctx context.Context, tenant string) (domain.ModelSettings, error)
	PutModelSettings(ctx context.Context, tenant string, document domain.Payload, expected int64) (domain.ModelSettings, error)

	PutSecret(ctx context.Context, tenant, name string, request domain.Payload) (created bool, err error)
	ListSecrets(ctx context.Context, tenant, cursor string, limit int) (secrets []ports.SealedSecret, next string, err error)
	DeleteSecret(ctx context.Context, tenant, name string) error

	Capabilities() (features map[string]bool, limits map[string]int, hooks []string)
	Ready(ctx context.Context) error
}

// Streams serves event streams. Serve returns an error only while nothing has been written.
type Streams interface {
	Serve(w http.ResponseWriter, r *http.Request, ref domain.SessionRef, after domain.Seq, partials bool) error
}

// Config is what the API is made of.
type Config struct {
	Service Service
	Streams Streams
	Auth    Authenticator
	IDs     ports.IDs // mints the ids of requests
	Log     *zap.Logger

	ServiceVersion string          // as in "keel-agent/0.1.0"
	AllowedHosts   []string        // Host names accepted beside the loopback ones; "*" accepts any
	MaxBody        int64           // bytes of a request body; 0 means 64 KiB above domain.DefaultMaxPayload
	Draining       <-chan struct{} // closed when the process begins to drain; nil: never

	BodyTimeout  time.Duration // for a whole request body; 30 s
	WriteTimeout time.Duration // for a whole answer that is no stream, on connections of Patient without progress; 1 min
}

// api holds what the handlers share.
type api struct {
	Config
	log    *zap.Logger
	router router
}

// New returns the handler of the whole API.
func New(cfg Config) http.Handler {
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = domain.DefaultMaxPayload + 64<<10
	}
	if cfg.BodyTimeout <= 0 {
		cfg.BodyTimeout = 30 * time.Second
	}
	if cfg.WriteTimeout <= 0 {
		cfg.WriteTimeout = time.Minute
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	a := &api{Config: cfg, log: cfg.Log.Named("httpapi")}
	a.router = newRouter(a.routes(), a.notFound)
	return a
}
