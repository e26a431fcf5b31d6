// Package httprequest makes HTTP requests on behalf of a client: the method
// http/request and the notification http/request/bodyDelta.
//
// A Service belongs to one connection and is safe for concurrent use. When it is
// closed, every request it makes is cancelled and every stream ends without
// another word. At most protocol.MaxHTTPRequests are under way at a time, streams
// included, and a body that is not streamed is at most protocol.MaxHTTPBodyBytes
// long once decoded; beyond either the request is refused. A stream waits while
// the client does not read, and with it the peer that sends the body.
//
// Header names travel in the canonical spelling of net/http, in its order; the
// values of one name keep theirs. Proxies are taken from the environment of the
// server (HTTP_PROXY, HTTPS_PROXY, NO_PROXY).
package httprequest
