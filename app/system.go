package app

import (
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// systemClock is the machine's clock.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

// uuids mints UUIDs of version 7, which ascend in time.
type uuids struct{}

func (uuids) New() string {
	return uuid.Must(uuid.NewV7()).String()
}

func (uuids) Jitter() float64 { return rand.Float64() }
