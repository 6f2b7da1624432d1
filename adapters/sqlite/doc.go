// Package sqlite is the embedded store: one file, one server process, nothing to install.
//
// One connection writes, one transaction for each command, and every commit is on the disk before it is answered
// (write-ahead log, synchronous=FULL). A few other connections read. The store's clock is Config.Now, for there is only
// one process.
package sqlite
