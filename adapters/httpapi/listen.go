package httpapi

import (
	"context"
	"net"
	"time"
)

// vanished is how long what was written may stay unacknowledged before a connection counts as dead. A stream writes
// at least every 15 s, so a client that is gone without a word is noticed within two of its comments.
const vanished = 15 * time.Second

// Listen listens on a TCP address for connections that the kernel gives up once their peer has vanished. Where the
// system has no such limit, its own, much longer ones hold.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	cfg := net.ListenConfig{Control: limitUnacknowledged}
	return cfg.Listen(ctx, "tcp", address)
}
