package postgres_test

import (
	"errors"
	"testing"
)

// second returns the error of a call with a result.
func second[T any](_ T, err error) error { return err }

func wantRefusal(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}
