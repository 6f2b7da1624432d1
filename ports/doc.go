// Package ports holds what the application needs from the outside world, one file per port. A contract stands at its
// interface; package portstest holds one conformance suite per port that every adapter of it runs.
//
// Every error that the domain names (domain.ErrFenced and its like) reaches the caller through errors.Is, whatever
// the adapter. Methods are safe for concurrent use.
package ports
