package nats

// ClientID is the server's number of the bus's connection.
func (b *Bus) ClientID() (uint64, error) { return b.conn.GetClientID() }

// Connected reports whether the bus has a connection.
func (b *Bus) Connected() bool { return b.conn.IsConnected() }
