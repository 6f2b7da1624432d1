package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"
)

// exchange is what the middleware knows of one request.
type exchange struct {
	id     string
	tenant string // "" before authentication and on public paths
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange {
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	if x == nil {
		x = &exchange{}
	}
	return x
}

func requestField(r *http.Request) zap.Field { return zap.String("request", exchangeOf(r).id) }

// ServeHTTP names the request, bounds how long its body and its answer may take, sets the headers of every answer, turns
// a panic into a problem and writes the access log, at debug. A request that may pass goes to its handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o := a.observe(w, r)
	defer o.end()
	if handle := a.handler(o.rec, o.r); handle != nil {
		handle(o.rec, o.r)
	}
}

// handler returns who answers r, nil when it was refused and the answer is given.
func (a *api) handler(w http.ResponseWriter, r *http.Request) http.HandlerFunc {
	if !a.guard(w, r) || !a.authenticate(w, r) {
		return nil
	}
	return a.router.find(r)
}

// observed is a request under way.
type observed struct {
	a     *api
	x     *exchange
	r     *http.Request
	rec   *recorder
	begin time.Time
}

func (a *api) observe(w http.ResponseWriter, r *http.Request) *observed {
	x := &exchange{id: r.Header.Get("X-Request-Id")}
	if !isRequestID(x.id) {
		x.id = a.IDs.New()
	}
	h := w.Header()
	h.Set("X-Request-Id", x.id)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	rec := &recorder{ResponseWriter: w, body: a.receive(w, r), rc: http.NewResponseController(w), timeout: a.WriteTimeout}
	_ = rec.rc.SetWriteDeadline(time.Time{}) // that of the answer before
	if rec.body != nil {
		r.Body = rec.body
	}
	return &observed{a, x, r, rec, time.Now()}
}

// end is deferred.
func (o *observed) end() {
	v := recover()
	o.rec.body.leave(o.a.BodyTimeout)
	_ = o.rec.rc.SetWriteDeadline(time.Now().Add(o.a.WriteTimeout)) // for what net/http still writes, after a stream too
	if e := o.a.log.Check(zap.DebugLevel, "request"); e != nil {
		e.Write(zap.String("request", o.x.id), zap.String("tenant", o.x.tenant), zap.String("method", o.r.Method),
			zap.String("path", o.r.URL.Path), zap.Int("status", o.rec.status), zap.Int64("bytes", o.rec.bytes),
			zap.Duration("took", time.Since(o.begin)))
	}
	if v != nil {
		o.a.recovered(o.rec, o.r, v)
	}
}

// recovered answers after a panic, or cuts the connection when an answer has begun.
func (a *api) recovered(w *recorder, r *http.Request, v any) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	a.log.Error("panic", requestField(r), zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.Any("value", v), zap.Stack("stack"))
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	writeProblem(w, problemOf(nil))
}

// isRequestID reports whether a client's id may go into logs and headers as it is.
func isRequestID(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 128
}

// recorder notes what is written. Unwrap lets http.ResponseController reach the connection.
type recorder struct {
	http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	body    *inbound // nil: none was announced
	status  int
	bytes   int64
}

func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// begin starts the time of the answer; a stream sets its own. An answer that comes before all of the body ends the
// connection: net/http would wait for the rest before it writes.
func (w *recorder) begin(status int) {
	w.status = status
	_ = w.rc.SetWriteDeadline(time.Now().Add(w.timeout))
	if w.body.left() {
		w.Header().Set("Connection", "close")
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.begin(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}
