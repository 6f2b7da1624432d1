package app

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHostsThatRequestsMayUse(t *testing.T) {
	for listen, want := range map[string][]string{
		"127.0.0.1:8420": nil, "localhost:8420": nil, "[::1]:8420": nil, "0.0.0.0:8420": {"*"}, ":8420": {"*"}, "10.1.2.3:8420": {"*"},
	} {
		require.Equal(t, want, Config{Listen: listen}.allowedHosts(), listen)
	}
	named := []string{"keel.example.com"}
	require.Equal(t, named, Config{Listen: "0.0.0.0:8420", AllowedHosts: named}.allowedHosts())
}

func TestAnnouncedAddressCanBeReached(t *testing.T) {
	for given, want := range map[string]string{
		"0.0.0.0:8420": "127.0.0.1:8420", "[::]:8420": "127.0.0.1:8420", "127.0.0.1:1": "127.0.0.1:1", "[::1]:1": "[::1]:1",
	} {
		addr, err := net.ResolveTCPAddr("tcp", given)
		require.NoError(t, err)
		require.Equal(t, want, reachable(addr))
	}
}

func TestPoolSize(t *testing.T) {
	require.Equal(t, defaultMaxConns, Config{Store: "postgres://h/db"}.maxConns())
	require.Zero(t, Config{Store: "postgres://h/db?pool_max_conns=3"}.maxConns(), "the URL says it")
	require.Equal(t, 7, Config{Store: "postgres://h/db?pool_max_conns=3", MaxConns: 7}.maxConns())
}

func TestLargestBodyHoldsTheLargestPayload(t *testing.T) {
	require.Zero(t, Config{}.maxBody())
	require.Greater(t, Config{MaxPayload: 1 << 20}.maxBody(), int64(1<<20))
}

func TestBusURL(t *testing.T) {
	const direct, pooled = "postgres://db/keel", "postgres://pooler/keel"
	require.Equal(t, pooled, Config{Store: pooled}.directURL())
	require.Equal(t, direct, Config{Store: pooled, BusURL: direct}.directURL())
	for bus, store := range map[string]string{direct: "memory:", "sqlite:keel.db": pooled, "db:5432": pooled} {
		require.ErrorContains(t, Config{Listen: "127.0.0.1:1", Store: store, BusURL: bus}.Validate(), "--bus-url")
	}
	require.NoError(t, Config{Listen: "127.0.0.1:1", Store: pooled, BusURL: direct}.Validate())
}
