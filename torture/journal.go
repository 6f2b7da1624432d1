package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"sync"

	"github.com/keel-agent/keel/torture/check"
)

// journal is the clients' log: a file with one record a line. The checker reads that file.
type journal struct {
	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
	err  error
}

func newJournal(path string) (*journal, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &journal{file: f, out: bufio.NewWriter(f)}, nil
}

func (j *journal) add(r check.Record) {
	line, err := json.Marshal(r)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		_, err = j.out.Write(append(line, '\n'))
	}
	j.err = errors.Join(j.err, err)
}

func (j *journal) fail(kind check.Kind, tenant, session, detail string) {
	j.add(check.Record{Failure: &check.Failure{Kind: kind, Tenant: tenant, Session: session, Detail: detail}})
}

// flush writes what is buffered and returns the first error there was.
func (j *journal) flush() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.err, j.out.Flush())
}

func (j *journal) close() error { return errors.Join(j.flush(), j.file.Close()) }
