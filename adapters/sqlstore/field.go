package sqlstore

import (
	"errors"
	"strings"
	"time"
)

// Field binds a column to the struct field that holds its value: a *string, *int64, *bool or *[]byte, or a **string or
// **int64 where the column may be NULL.
type Field struct {
	Column string
	Ptr    any
}

// ErrCorrupt is returned for a row that does not hold what the store writes.
var ErrCorrupt = errors.New("corrupt row")

// Value returns the value to bind.
func (f Field) Value() any {
	switch p := f.Ptr.(type) {
	case *string:
		return *p
	case *int64:
		return *p
	case *bool:
		return *p
	case *[]byte:
		return *p
	case **string:
		if *p == nil {
			return nil
		}
		return **p
	case **int64:
		if *p == nil {
			return nil
		}
		return **p
	default:
		panic("sqlstore: a field of an unknown type")
	}
}

// Values returns the values of fields, to bind in their order.
func Values(fields []Field) []any {
	out := make([]any, len(fields))
	for i, f := range fields {
		out[i] = f.Value()
	}
	return out
}

// Dests appends the destinations that a row of these columns is scanned into.
func Dests(dst []any, fields []Field) []any {
	for _, f := range fields {
		dst = append(dst, f.Ptr)
	}
	return dst
}

// Columns returns the select list of fields, each behind alias.
func Columns(alias string, fields []Field) string {
	return columns(fields, func(f Field) string { return alias + "." + f.Column })
}

// OuterColumns returns the select list of fields for the nullable side of an outer join: NULL becomes the zero value
// where the column itself is never NULL.
func OuterColumns(alias string, fields []Field) string {
	return columns(fields, func(f Field) string {
		name, zero := alias+"."+f.Column, ""
		switch f.Ptr.(type) {
		case *string:
			zero = "''"
		case *int64:
			zero = "0"
		case *bool:
			zero = "false"
		default:
			return name
		}
		return "coalesce(" + name + ", " + zero + ")"
	})
}

// Names returns the bare column names of fields, comma-separated.
func Names(fields []Field) string {
	return columns(fields, func(f Field) string { return f.Column })
}

func columns(fields []Field, write func(Field) string) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = write(f)
	}
	return strings.Join(parts, ", ")
}

// millis returns t as a column that is NULL for the zero time.
func millis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

// moment is the inverse of millis.
func moment(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms).UTC()
}
