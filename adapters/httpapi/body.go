package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/keel-agent/keel/domain"
)

// lingering is how long the rest of a body that nobody read may still come, so that its sender gets to see the answer.
const lingering = 5 * time.Second

// inbound is an announced body. All of it has to come before a deadline that was set at the very beginning, whoever
// reads it, be it net/http after the handler.
type inbound struct {
	io.ReadCloser
	rc    *http.ResponseController
	whole bool // it was read to its end
	cut   bool // it ended early, or too late
}

// receive sets the deadline of r's body. It returns nil when r has none.
func (a *api) receive(w http.ResponseWriter, r *http.Request) *inbound {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	b := &inbound{ReadCloser: r.Body, rc: http.NewResponseController(w)}
	_ = b.rc.SetReadDeadline(time.Now().Add(a.BodyTimeout)) // where there are none, the server's own holds
	return b
}

func (b *inbound) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.whole = true
		_ = b.rc.SetReadDeadline(time.Time{})
	default:
		b.cut = true
	}
	return n, err
}

// left reports whether some of the body was not read.
func (b *inbound) left() bool { return b != nil && !b.whole }

// leave bounds how long net/http waits for the rest, also after a stream, which has no deadline of its own.
func (b *inbound) leave(patience time.Duration) {
	if b.left() && !b.cut {
		_ = b.rc.SetReadDeadline(time.Now().Add(min(patience, lingering)))
	}
}

// errMediaType refuses a body that is not declared as JSON, or is compressed.
var errMediaType = &domain.Error{Code: codeUnsupportedMediaType, Detail: "the body must be application/json, not compressed"}

// readObject reads the body as one strict JSON object. It returns ErrInvalidJSON, ErrPayloadTooLarge or errMediaType.
func (a *api) readObject(w http.ResponseWriter, r *http.Request) (domain.Payload, error) {
	raw, err := a.readBody(w, r)
	if err != nil {
		return domain.Payload{}, err
	}
	return domain.ParsePayload(raw, int(a.MaxBody))
}

// readEnvelope is readObject for a body that carries a payload: what stands in the member payload may be as deep as a
// payload that comes by itself.
func (a *api) readEnvelope(w http.ResponseWriter, r *http.Request) (domain.Payload, error) {
	raw, err := a.readBody(w, r)
	if err != nil {
		return domain.Payload{}, err
	}
	around, payload := cutPayload(raw)
	envelope, err := domain.ParsePayload(around, int(a.MaxBody))
	if err != nil || payload == nil {
		return envelope, err
	}
	value, err := domain.ParseValue(payload, int(a.MaxBody))
	if err != nil {
		return domain.Payload{}, err
	}
	return envelope.With("payload", value), nil
}

// cutPayload takes the values of the members payload out of an object: around has null in their place, and payload is
// the last of them, nil when there is none. It checks nothing: around is as wrong as raw where raw is no object.
func cutPayload(raw []byte) (around, payload []byte) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return raw, nil
	}
	kept := int64(0)
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return raw, nil
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return raw, nil
		}
		if name == "payload" {
			end := dec.InputOffset()
			around = append(append(around, raw[kept:end-int64(len(value))]...), "null"...)
			kept, payload = end, value
		}
	}
	return append(around, raw[kept:]...), payload
}

// readOptional is readObject for requests that may come without a body, which counts as the empty object.
func (a *api) readOptional(w http.ResponseWriter, r *http.Request) (domain.Payload, error) {
	raw, err := a.readBody(w, r)
	if err == nil && len(bytes.TrimSpace(raw)) == 0 {
		raw = []byte("{}")
	}
	if err != nil {
		return domain.Payload{}, err
	}
	return domain.ParsePayload(raw, int(a.MaxBody))
}

func (a *api) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	if !isJSON(r.Header) {
		return nil, errMediaType
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, a.MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, a.tooLarge()
	case err != nil:
		return nil, domain.ErrInvalidJSON.With("the body ended early")
	}
	return raw, nil
}

func (a *api) tooLarge() error {
	return domain.ErrPayloadTooLarge.With("a body may have at most " + strconv.FormatInt(a.MaxBody, 10) + " bytes")
}

func isJSON(h http.Header) bool {
	mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && mediaType == "application/json" && h.Get("Content-Encoding") == ""
}

// write sends v as JSON, spelled as it is stored.
func write(w http.ResponseWriter, status int, contentType string, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // a shape of this package that cannot be encoded is a fault of this package
	}
	writeBytes(w, status, contentType, b.Bytes())
}

func writeJSON(w http.ResponseWriter, status int, v any) { write(w, status, "application/json", v) }

func writeBytes(w http.ResponseWriter, status int, contentType string, b []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that left is nobody's error
}
