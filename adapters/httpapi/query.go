package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// metadataFilter stands for the parameters metadata[…] in the names of what a list takes.
const metadataFilter = "metadata[NAME]"

// checkQuery returns ErrInvalidRequest for a parameter that is not among names, or comes twice: a list that overlooked
// a filter would show what it was to leave out.
func checkQuery(r *http.Request, names ...string) error {
	q := r.URL.Query()
	for _, given := range slices.Sorted(maps.Keys(q)) {
		name := given
		if _, ok := metadataKey(given); ok {
			name = metadataFilter
		}
		switch {
		case !slices.Contains(names, name):
			return domain.ErrInvalidRequest.At(given).With("is no parameter of this list, which takes " + strings.Join(names, ", "))
		case len(q[given]) > 1:
			return domain.ErrInvalidRequest.At(given).With("must be given once")
		}
	}
	return nil
}

// metadataKey returns the KEY of a parameter metadata[KEY].
func metadataKey(name string) (string, bool) {
	key, ok := strings.CutPrefix(name, "metadata[")
	return strings.TrimSuffix(key, "]"), ok && strings.HasSuffix(key, "]")
}

// pageQuery is checkQuery and limit for a list that takes limit and cursor alone.
func pageQuery(r *http.Request) (int, error) {
	if err := checkQuery(r, "limit", "cursor"); err != nil {
		return 0, err
	}
	return limit(r)
}

// messagesQuery is pageQuery for the list of messages, which may begin with the newest.
func messagesQuery(r *http.Request) (n int, newest bool, err error) {
	if err := checkQuery(r, "limit", "cursor", "order"); err != nil {
		return 0, false, err
	}
	q := r.URL.Query()
	order := q.Get("order")
	if q.Has("order") && order != "asc" && order != "desc" {
		return 0, false, domain.ErrInvalidRequest.At("order").With("must be asc or desc")
	}
	n, err = limit(r)
	return n, order == "desc", err
}

// limit returns the parameter limit, 0 when it is absent. More than any page holds is clamped by the service, however
// large it is; zero, negative or no number is ErrInvalidRequest.
func limit(r *http.Request) (int, error) {
	q := r.URL.Query()
	if !q.Has("limit") {
		return 0, nil
	}
	digits := strings.TrimLeft(q.Get("limit"), "0")
	if digits == "" || !allDigits(digits) {
		return 0, domain.ErrInvalidRequest.At("limit").With("must be a positive integer")
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		n = 1 << 30
	}
	return int(n), nil
}

// after returns the position that the parameter after names, 0 when it is absent, or ErrInvalidCursor.
func after(r *http.Request) (domain.Seq, error) {
	q := r.URL.Query()
	if !q.Has("after") {
		return 0, nil
	}
	return parseSeq(q.Get("after"), "after")
}

// resumeAt is after, unless the client resumes a stream with Last-Event-ID, which wins.
func resumeAt(r *http.Request) (domain.Seq, error) {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return parseSeq(id, "Last-Event-ID")
	}
	return after(r)
}

// parseSeq reads a non-negative decimal integer of 64 bits, digits only.
func parseSeq(s, field string) (domain.Seq, error) {
	if !allDigits(s) {
		return 0, domain.ErrInvalidCursor.At(field)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, domain.ErrInvalidCursor.At(field)
	}
	return domain.Seq(n), nil
}

func allDigits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// maxMetadataFilters is how many members a list of sessions may be filtered by.
const maxMetadataFilters = 16

// sessionQuery reads the filters of a list of sessions: state, parent, and metadata[key]=value.
func sessionQuery(r *http.Request, tenant string) (ports.SessionQuery, error) {
	params := r.URL.Query()
	if err := checkQuery(r, "state", "parent", metadataFilter, "limit", "cursor"); err != nil {
		return ports.SessionQuery{}, err
	}
	q := ports.SessionQuery{Tenant: tenant, State: domain.SessionState(params.Get("state")), Parent: params.Get("parent")}
	if params.Has("state") && q.State == "" {
		return q, domain.ErrInvalidRequest.At("state").With("must be open, closing or closed")
	}
	if params.Has("parent") && domain.CheckID(q.Parent) != nil {
		return q, domain.ErrInvalidRequest.At("parent").With("is no id of a session")
	}
	for name, values := range params {
		key, ok := metadataKey(name)
		if !ok {
			continue
		}
		if !isText(name) || !isText(values[0]) {
			return q, domain.ErrInvalidRequest.At("metadata").With("must be UTF-8 without U+0000")
		}
		if q.Metadata == nil {
			q.Metadata = map[string]string{}
		}
		q.Metadata[key] = values[0]
	}
	if len(q.Metadata) > maxMetadataFilters {
		return q, domain.ErrInvalidRequest.At("metadata").With("at most " + strconv.Itoa(maxMetadataFilters) + " filters")
	}
	var err error
	q.Limit, err = limit(r)
	return q, err
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
