package app

import (
	"math"
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

func TestDirectURL(t *testing.T) {
	const direct, pooled = "postgres://db/keel", "postgres://pooler/keel"
	require.Equal(t, pooled, Config{Store: pooled}.directURL())
	require.Equal(t, direct, Config{Store: pooled, DirectURL: direct}.directURL())
	for url, store := range map[string]string{direct: "memory:", "sqlite:keel.db": pooled, "db:5432": pooled} {
		require.ErrorContains(t, Config{Listen: "127.0.0.1:1", Store: store, DirectURL: url}.Validate(), "--direct-url")
	}
	require.NoError(t, Config{Listen: "127.0.0.1:1", Store: pooled, DirectURL: direct}.Validate())
}

func TestSharesOfTheWindow(t *testing.T) {
	valid := func(at, keep float64) error {
		return Config{Listen: "127.0.0.1:1", Store: "memory:", CompactAt: at, CompactKeep: keep}.Validate()
	}
	for _, shares := range [][2]float64{{0.8, 0.2}, {0, 0.9}, {1, 0}, {0, 0}} {
		require.NoError(t, valid(shares[0], shares[1]))
	}
	for _, at := range []float64{-0.1, 1.1, 80, math.NaN()} {
		require.ErrorContains(t, valid(at, 0.2), "--compact-at")
	}
	for _, keep := range []float64{-0.1, 0.8, 0.95, math.NaN()} {
		require.ErrorContains(t, valid(0.8, keep), "--compact-keep")
	}
}

func TestBusIsForSeveralProcesses(t *testing.T) {
	valid := func(bus, store, creds string) error {
		return Config{Listen: "127.0.0.1:0", Bus: bus, Store: store, BusCreds: creds, Auth: authOff}.Validate()
	}
	const db = "postgres://h/db"
	for _, bus := range []string{"", "nats://h:4222", "tls://u:p@h", "nats://a:1,nats://b:1", "wss://h/x"} {
		require.NoError(t, valid(bus, db, ""))
	}
	require.NoError(t, valid("nats://h", db, "file"))
	for _, bus := range []string{"nats:", "h:4222", "http://h", "nats://h:port", "nats://a,b", "nats://u:secret@h:port"} {
		err := valid(bus, db, "")
		require.ErrorContains(t, err, "--bus: want nats://HOST:PORT", bus)
		require.NotContains(t, err.Error(), "secret")
	}
	require.ErrorContains(t, valid("nats://h", "memory:", ""), "--store is memory")
	require.ErrorContains(t, valid("nats://h", "sqlite:x.db", ""), "--store is sqlite")
	require.ErrorContains(t, valid("", db, "file"), "--bus-creds")
}

func TestWhoCanBeSucceeded(t *testing.T) {
	require.NoError(t, Config{Store: "sqlite:x"}.canSucceed(2))
	require.NoError(t, Config{Store: "postgres://h/db"}.canSucceed(2))
	require.ErrorContains(t, Config{Store: "memory:"}.canSucceed(2), "memory")
	require.ErrorContains(t, Config{Store: "sqlite:x"}.canSucceed(1), "container")
}
