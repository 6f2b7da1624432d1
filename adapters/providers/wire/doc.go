// Package wire is what the codecs of all backends share: reading server-sent events, the watch over silent streams,
// fault classes, retry hints, and the finishing of texts and of tool-call arguments.
//
// Nothing here knows a backend. A codec decodes the chunks of its own wire and leaves the rest to this package.
package wire
