// Package declared reads the files in which an operator declares tools.
package declared

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Read decodes a YAML file into v. A key that v does not know is an error, and so is a second document.
func Read(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := Decode(text, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// unknownKey is how the decoder names a key that a Go type does not have.
var unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)

// Decode is Read for a text.
func Decode(text []byte, v any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	err := d.Decode(v)
	if faults, ok := errors.AsType[*yaml.TypeError](err); ok {
		for i, text := range faults.Errors {
			faults.Errors[i] = unknownKey.ReplaceAllString(text, `there is no key "$1"`)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one document")
	}
	return nil
}

var (
	reference = regexp.MustCompile(`\$\{[^}]*\}?`)
	variable  = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)
	secret    = regexp.MustCompile(`^\$\{secret:([A-Za-z0-9][A-Za-z0-9._-]{0,127})\}$`)
)

// piece is a part of a declared value: text, or the name of a secret of the tenant.
type piece struct{ text, secret string }

// parse replaces each ${NAME} in s by the value of the environment variable NAME. A variable that is not set is an
// error; a "$" that no "{" follows stands for itself. Of ${secret:NAME} it returns the name.
func parse(s string, lookup func(string) (string, bool)) ([]piece, error) {
	var pieces []piece
	end := 0
	for _, at := range reference.FindAllStringIndex(s, -1) {
		p, err := resolve(s[at[0]:at[1]], lookup)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, piece{text: s[end:at[0]]}, p)
		end = at[1]
	}
	return append(pieces, piece{text: s[end:]}), nil
}

func resolve(ref string, lookup func(string) (string, bool)) (piece, error) {
	if name := secret.FindStringSubmatch(ref); name != nil {
		return piece{secret: name[1]}, nil
	}
	name := variable.FindStringSubmatch(ref)
	if name == nil {
		return piece{}, fmt.Errorf("%q is no reference: want ${NAME} for an environment variable, ${secret:NAME} for a secret of the tenant", ref)
	}
	value, set := lookup(name[1])
	if !set {
		return piece{}, fmt.Errorf("the environment variable %s is not set", name[1])
	}
	return piece{text: value}, nil
}

// Expand replaces each ${NAME} in s by the value of the environment variable NAME, so that files hold no secrets. A
// variable that is not set is an error, and so is a secret of a tenant, since what is expanded serves all of them.
func Expand(s string, lookup func(string) (string, bool)) (string, error) {
	pieces, err := parse(s, lookup)
	if err != nil {
		return "", err
	}
	var expanded strings.Builder
	for _, p := range pieces {
		if p.secret != "" {
			return "", fmt.Errorf("${secret:%s}: a secret of the tenant can be in headers alone, for what stands here is the same for all tenants", p.secret)
		}
		expanded.WriteString(p.text)
	}
	return expanded.String(), nil
}

// ExpandAll is Expand for the values of a map; it returns a new one. An error names the key.
func ExpandAll(values map[string]string, lookup func(string) (string, bool)) (map[string]string, error) {
	all := make(map[string]string, len(values))
	for key, value := range values {
		expanded, err := Expand(value, lookup)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		all[key] = expanded
	}
	return all, nil
}
