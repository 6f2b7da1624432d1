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

// bodyTimeout is how long a client may take to send its body.
const bodyTimeout = 30 * time.Second

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
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // where there are none, the server's own holds
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, a.MaxBody))
	_ = rc.SetReadDeadline(time.Time{})
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
