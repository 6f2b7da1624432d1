package postgres

import (
	"strconv"
	"strings"

	"github.com/keel-agent/keel/adapters/sqlstore"
)

// relation is a set of rows on its way into a statement, bound column by column: one array for each, or plain values
// when there is exactly one row, which spares the planner its guesses about arrays.
type relation struct {
	fields []sqlstore.Field // of the first row: names and types
	args   []any
	size   cardinality
}

// cardinality is all that the text of a statement depends on.
type cardinality byte

const (
	none cardinality = iota
	one
	many
)

// relationOf returns the relation of rows, which all have the same columns.
func relationOf(rows [][]sqlstore.Field) relation {
	switch len(rows) {
	case 0:
		return relation{}
	case 1:
		return relation{fields: rows[0], args: sqlstore.Values(rows[0]), size: one}
	}
	rel := relation{fields: rows[0], args: make([]any, len(rows[0])), size: many}
	for i, f := range rows[0] {
		switch f.Ptr.(type) {
		case *string:
			rel.args[i] = gather[string](rows, i)
		case *int64:
			rel.args[i] = gather[int64](rows, i)
		case *bool:
			rel.args[i] = gather[bool](rows, i)
		case *[]byte:
			rel.args[i] = gather[[]byte](rows, i)
		case **string:
			rel.args[i] = gather[*string](rows, i)
		case **int64:
			rel.args[i] = gather[*int64](rows, i)
		}
	}
	return rel
}

func gather[T any](rows [][]sqlstore.Field, column int) []T {
	out := make([]T, len(rows))
	for i, fields := range rows {
		out[i] = *fields[column].Ptr.(*T)
	}
	return out
}

// source returns the relation as a FROM item named n; its parameters are numbered from after+1.
func (r relation) source(after int) string {
	params := make([]string, len(r.fields))
	suffix := ""
	if r.size == many {
		suffix = "[]"
	}
	for i, f := range r.fields {
		params[i] = "$" + strconv.Itoa(after+i+1) + "::" + sqlType(f) + suffix
	}
	list := strings.Join(params, ", ")
	if r.size == many {
		return "unnest(" + list + ") AS n(" + sqlstore.Names(r.fields) + ")"
	}
	return "(VALUES (" + list + ")) AS n(" + sqlstore.Names(r.fields) + ")"
}

func sqlType(f sqlstore.Field) string {
	switch f.Ptr.(type) {
	case *string, **string:
		return "text"
	case *int64, **int64:
		return "bigint"
	case *bool:
		return "boolean"
	default:
		return "bytea"
	}
}
