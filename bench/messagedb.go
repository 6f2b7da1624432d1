package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// messageDBPeer is message-db in a database of its own.
type messageDBPeer struct {
	pool *pgxpool.Pool
	drop func()
}

// messageDBFiles are the files of message-db that its install.sh runs, in its order, less roles, privileges and views.
var messageDBFiles = []string{
	"schema/message-store", "extensions/pgcrypto", "tables/messages", "types/message",
	"functions/message-store-version", "functions/hash-64", "functions/acquire-lock", "functions/category", "functions/is-category",
	"functions/id", "functions/cardinal-id", "functions/stream-version", "functions/write-message",
	"indexes/messages-id", "indexes/messages-stream", "indexes/messages-category",
}

// openMessageDB makes the database. The caller closes the peer.
func (b *bench) openMessageDB(ctx context.Context, server string) (*messageDBPeer, error) {
	if !b.peers {
		return nil, errNoPeers
	}
	dir, err := npmPeer("message-db", "@eventide/message-db/database")
	if err != nil {
		return nil, err
	}
	at, drop, err := freshDatabase(ctx, server)
	if err != nil {
		return nil, err
	}
	p := &messageDBPeer{drop: drop}
	if err = installMessageDB(ctx, at, dir); err == nil {
		p.pool, err = openPool(ctx, at, b.conns)
	}
	if err != nil {
		drop()
		return nil, err
	}
	return p, nil
}

const messageDBPath = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path TO message_store, public', current_database()); END $$"

func installMessageDB(ctx context.Context, at, dir string) error {
	if err := execute(ctx, at, messageDBPath); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, name := range messageDBFiles {
		text, err := os.ReadFile(filepath.Clean(filepath.Join(dir, filepath.FromSlash(name)+".sql")))
		if err != nil {
			return err
		}
		if _, err := conn.PgConn().Exec(ctx, string(text)).ReadAll(); err != nil {
			return fmt.Errorf("message-db, %s: %w", name, err)
		}
	}
	return nil
}

// writer returns what writes the next message of a client's stream, guarded by the stream's version. The category of a
// stream is its name up to the first dash.
func (p *messageDBPeer) writer(clients int, stream func(client int) string) func(ctx context.Context, client int) error {
	written := make([]paddedSeq, clients)
	return func(ctx context.Context, client int) error {
		_, err := p.pool.Exec(ctx, "SELECT write_message($1, $2, 'assistant.message', $3::jsonb, NULL, $4)",
			uuid.NewString(), stream(client), messagePayload.String(), written[client].n-1)
		written[client].n++
		return err
	}
}

func (p *messageDBPeer) close() {
	p.pool.Close()
	p.drop()
}

// appendsBesideMessageDB compares appends with message-db's, whose writers of one category wait for each other.
func appendsBesideMessageDB(ctx context.Context, b *bench) ([]row, error) {
	const clients = 32
	server, err := postgresServer()
	if err != nil {
		return nil, err
	}
	r, at, err := b.freshRig(ctx, server)
	if err != nil {
		return nil, err
	}
	defer r.close()
	attempts, err := r.claimed(ctx, clients)
	if err != nil {
		return nil, err
	}
	if err := tidyUp(ctx, at); err != nil {
		return nil, err
	}
	sides := []side{{name: "appends", round: driven(clients, one(func(ctx context.Context, client int) error { return r.append(ctx, attempts[client]) }))}}
	peer, err := b.openMessageDB(ctx, server)
	why, err := absence(err)
	if err != nil {
		return nil, err
	}
	if peer != nil {
		defer peer.close()
		sides = append(sides,
			side{name: "message-db, one category", round: driven(clients, one(peer.writer(clients, func(i int) string { return fmt.Sprintf("one-%d", i) })))},
			side{name: "message-db, a category each", round: driven(clients, one(peer.writer(clients, func(i int) string { return fmt.Sprintf("each%d-1", i) })))},
		)
	}
	s, err := b.contest(ctx, sides...)
	if err != nil {
		return nil, err
	}
	const measure = "appends, Postgres, 32 sessions"
	if peer == nil {
		return []row{alone(measure, s, 0, why)}, nil
	}
	return []row{
		rates(measure, s, 0, 1, "message-db, one category,", atLeast(6)),
		rates("the same", s, 0, 2, "message-db, a category for each stream,", goal{}),
	}, nil
}
