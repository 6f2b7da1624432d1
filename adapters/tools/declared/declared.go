// Package declared reads the files in which an operator declares tools.
package declared

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

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

// Decode is Read for a text.
func Decode(text []byte, v any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one document")
	}
	return nil
}

var reference = regexp.MustCompile(`\$\{[^}]*\}?`)

var variable = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`)

// Expand replaces each ${NAME} in s by the value of the environment variable NAME, so that files hold no secrets. A
// variable that is not set is an error; a "$" that no "{" follows stands for itself.
func Expand(s string, lookup func(string) (string, bool)) (string, error) {
	var fault error
	expanded := reference.ReplaceAllStringFunc(s, func(ref string) string {
		if !variable.MatchString(ref) {
			fault = fmt.Errorf("%q is no reference to an environment variable: want ${NAME}", ref)
			return ""
		}
		value, set := lookup(ref[2 : len(ref)-1])
		if !set {
			fault = fmt.Errorf("the environment variable %s is not set", ref[2:len(ref)-1])
		}
		return value
	})
	if fault != nil {
		return "", fault
	}
	return expanded, nil
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
