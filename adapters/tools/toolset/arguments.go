package toolset

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/keel-agent/keel/domain"
)

// Arguments are the decoded arguments of a call: whole numbers as int64 as far as they fit, others as float64.
type Arguments map[string]any

// Text returns a string, "" when it is absent.
func (a Arguments) Text(name string) string {
	s, _ := a[name].(string)
	return s
}

// Flag returns a boolean, false when it is absent.
func (a Arguments) Flag(name string) bool {
	b, _ := a[name].(bool)
	return b
}

// Integer returns a number that the schema bounds to whole values, 0 when it is absent.
func (a Arguments) Integer(name string) int64 {
	switch n := a[name].(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

func resolve(schema string) (*jsonschema.Resolved, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		return nil, err
	}
	return s.Resolve(nil)
}

// parse reads one strict JSON object and validates it. The error is for the model.
func parse(schema *jsonschema.Resolved, raw string) (Arguments, error) {
	p, err := domain.ParsePayload([]byte(raw), 0)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(p.String()))
	d.UseNumber()
	var args map[string]any
	if err := d.Decode(&args); err != nil {
		return nil, err
	}
	value, err := withNumbers(args)
	if err != nil {
		return nil, err
	}
	args, _ = value.(map[string]any)
	if err := schema.Validate(args); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "validating root: "))
	}
	return args, nil
}

// withNumbers replaces the number texts in v, which the validator would take for strings, by numbers.
func withNumbers(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		return number(v.String())
	case map[string]any:
		for k := range v {
			if v[k], err = withNumbers(v[k]); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = withNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func number(s string) (any, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, fmt.Errorf("the number %.40s is out of range", s)
	}
	return f, nil
}
