// Package computer drives a wsd that serves a workspace with the real clients of
// Cloudflare's computer: npm's @cloudflare/computer of several versions, in plain Node and
// in a Durable Object, and npm's capnweb.
//
// It has tests only, behind the build tag interop, run by `make interop`. They look at the
// wsd that WSD_BIN names, with what npm has put into the folders that NODE_BIN (Node 24),
// COMPUTER_DIR (a folder for each version of the client), CAPNWEB_DIR and MINIFLARE_DIR
// name. The scripts are in testdata; each prints a line for each of its checks. measure.mjs
// there is no test: it tells what the client does in a second, and what it costs.
package computer
