// Package differential decodes the fixtures of the providers with the official Go SDKs and compares. It is a module of its
// own, outside of the workspace: the SDKs take minutes to build. make differential runs it.
package differential
