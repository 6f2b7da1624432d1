package service

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/keel-agent/keel/domain"
)

// body is the top-level members of a request, raw. Names match exactly, case counts.
type body map[string]json.RawMessage

func parseBody(p domain.Payload) (body, error) {
	var b body
	if err := json.Unmarshal(p.Bytes(), &b); err != nil {
		return nil, domain.ErrInvalidJSON.With("not an object")
	}
	return b, nil
}

// given reports whether the member name is present and not null.
func (b body) given(name string) bool {
	raw, ok := b[name]
	return ok && string(raw) != "null"
}

// text returns the string member name, "" when it is absent or null. U+0000 is refused: these are names and settings,
// which stores keep in columns of their own.
func (b body) text(name string) (string, error) {
	if !b.given(name) {
		return "", nil
	}
	var s string
	if json.Unmarshal(b[name], &s) != nil {
		return "", domain.ErrInvalidRequest.At(name).With("must be a string")
	}
	if strings.ContainsRune(s, 0) {
		return "", domain.ErrInvalidRequest.At(name).With("must not contain U+0000")
	}
	return s, nil
}

// patch returns the new value of the string member name: nil when it is absent, "" for null.
func (b body) patch(name string) (*string, error) {
	if _, ok := b[name]; !ok {
		return nil, nil
	}
	s, err := b.text(name)
	return &s, err
}

// id returns the member name as an id, "" when it is absent or null.
func (b body) id(name string) (string, error) {
	s, err := b.text(name)
	if err != nil || !b.given(name) {
		return "", err
	}
	if err := domain.CheckID(s); err != nil {
		return "", domain.ErrInvalidRequest.At(name).With(reason(err))
	}
	return s, nil
}

// ids returns the array of ids name, nil when it is absent or null.
func (b body) ids(name string) ([]string, error) {
	if !b.given(name) {
		return nil, nil
	}
	var list []*string
	if json.Unmarshal(b[name], &list) != nil {
		return nil, domain.ErrInvalidRequest.At(name).With("must be an array of strings")
	}
	out := make([]string, 0, len(list))
	for _, s := range list {
		if s == nil || domain.CheckID(*s) != nil {
			return nil, domain.ErrInvalidRequest.At(name).With("must be an array of names")
		}
		out = append(out, *s)
	}
	return out, nil
}

// object returns the object member name, the zero Payload when it is absent or null. U+0000 is legal in its values
// and refused in its keys.
func (b body) object(name string) (domain.Payload, error) {
	if !b.given(name) {
		return domain.Payload{}, nil
	}
	raw := b[name]
	if raw[0] != '{' {
		return domain.Payload{}, domain.ErrInvalidRequest.At(name).With("must be an object")
	}
	if strings.Contains(string(raw), `\u0000`) && keyWithNUL(raw) {
		return domain.Payload{}, domain.ErrInvalidRequest.At(name).With("must not contain U+0000 in a key")
	}
	return domain.StoredPayload(string(raw)), nil
}

func keyWithNUL(raw json.RawMessage) bool {
	switch raw[0] {
	case '{':
		var members map[string]json.RawMessage
		_ = json.Unmarshal(raw, &members)
		for key, value := range members {
			if strings.ContainsRune(key, 0) || keyWithNUL(value) {
				return true
			}
		}
	case '[':
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list)
		return slices.ContainsFunc(list, keyWithNUL)
	}
	return false
}

// quote returns s as JSON text in the spelling that payloads have.
func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// reason returns what an error of domain tells people.
func reason(err error) string {
	if e, ok := errors.AsType[*domain.Error](err); ok {
		return e.Detail
	}
	return err.Error()
}
