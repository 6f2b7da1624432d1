package main

import (
	"fmt"
	"time"

	"github.com/keel-agent/keel/torture/plan"
)

// short is what the short tier does on Postgres, twice: 26 kills, a stop each time.
var short = []plan.Fault{
	plan.Point, plan.Kill, plan.Point, plan.Kill, plan.Point, plan.Kill, plan.Point,
	plan.Stop, plan.Point, plan.Kill, plan.Point, plan.Kill, plan.Point, plan.Kill,
}

// tierOf returns the scenarios of a tier.
func tierOf(name string, seed uint64) ([]scenario, error) {
	tiers := map[string][]scenario{
		"short": {
			{Name: "postgres", Store: "postgres", Options: plan.Options{Servers: 3, Cycles: 28, Faults: short}, Clients: 8},
			{Name: "sqlite", Store: "sqlite", Options: plan.Options{Servers: 1, Cycles: 8, Faults: []plan.Fault{plan.Kill, plan.Point}}, Clients: 6},
		},
		"long": {
			{Name: "kills", Store: "postgres", Options: plan.Options{Servers: 3, Cycles: 500, Faults: []plan.Fault{plan.Kill, plan.Point}}, Clients: 8},
			{Name: "stops", Store: "postgres", Options: plan.Options{Servers: 3, Cycles: 50, Faults: []plan.Fault{plan.Stop}}, Clients: 8},
			{Name: "rolls", Store: "postgres", Options: plan.Options{Servers: 3, Cycles: 25, Faults: []plan.Fault{plan.Roll}}, Clients: 8, Patience: 10 * time.Second},
			{Name: "storms", Store: "postgres", Options: plan.Options{Servers: 3, Cycles: 40, Faults: []plan.Fault{plan.Terminate}}, Clients: 8, Patience: 10 * time.Second},
			{Name: "database", Store: "postgres", Options: plan.Options{Servers: 3, Cycles: 20, Faults: []plan.Fault{plan.Restart, plan.Terminate}}, Clients: 8, Patience: 10 * time.Second},
			{Name: "mixed", Store: "postgres", Options: plan.Options{Servers: 3, Cycles: 120, Faults: []plan.Fault{plan.Kill, plan.Point, plan.Stop, plan.Term, plan.Terminate, plan.Kill, plan.Point, plan.Restart}}, Clients: 8},
			{Name: "sqlite", Store: "sqlite", Options: plan.Options{Servers: 1, Cycles: 100, Faults: []plan.Fault{plan.Kill, plan.Point, plan.Kill, plan.Point, plan.Term}}, Clients: 8},
		},
	}
	scenarios, known := tiers[name]
	if !known {
		return nil, fmt.Errorf("-tier %q: want short or long", name)
	}
	for i := range scenarios {
		s := &scenarios[i]
		s.Seed, s.Quiet = seed, 30*time.Second
		if err := s.check(); err != nil {
			return nil, err
		}
	}
	return scenarios, nil
}
