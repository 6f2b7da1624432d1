// Package bus is what every way of telling waiters and subscribers shares: the hubs within a process, and the state of
// one that reaches other processes too. How messages travel between them is the business of the adapters that use it.
package bus
