package httprequest

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// Config is what a Service may be told; the zero value works.
type Config struct {
	// Logger is told of streams that end early. nil discards.
	Logger *slog.Logger
	// LookupEnv finds the variables that valueEnvVar names; os.LookupEnv when nil.
	LookupEnv func(name string) (string, bool)
}

// Service serves http/request on one connection.
type Service struct {
	notifier rpc.Notifier
	cfg      Config

	ctx     context.Context // the lifetime of the Service
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	http    *client // nil until the first request
	count   int     // exchanges under way
	streams map[string]*stream
}

// errServiceClosed is why requests end when their connection does.
var errServiceClosed = errors.New("the connection ended")

// NewService makes the Service of a connection whose client n reaches.
func NewService(n rpc.Notifier, cfg Config) *Service {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.LookupEnv == nil {
		cfg.LookupEnv = os.LookupEnv
	}
	s := &Service{notifier: n, cfg: cfg, streams: make(map[string]*stream)}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// Register adds the methods of a *Service to t.
func Register(t *rpc.Table) {
	rpc.Handle(t, rpc.Spec[protocol.HTTPRequestParams]{Name: protocol.MethodHTTPRequest, Family: "http"}, (*Service).request)
}

// Close cancels all requests and waits for them to end.
func (s *Service) Close() error {
	s.mu.Lock()
	s.closed = true
	var waiting []*stream // whose answers may not be sent any more
	for _, st := range s.streams {
		if st.state == ready {
			st.state = ended
			waiting = append(waiting, st)
		}
	}
	http := s.http
	s.mu.Unlock()
	s.cancel(errServiceClosed)
	for _, st := range waiting {
		st.body.Close()
		s.running.Done()
	}
	s.running.Wait()
	if http != nil {
		http.CloseIdleConnections()
	}
	return nil
}

// begin counts an exchange in, or refuses it.
func (s *Service) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errServiceClosed
	}
	if s.count >= protocol.MaxHTTPRequests {
		return protocol.Errorf(protocol.CodeInvalidRequest, "at most %d http/request calls may be under way per connection", protocol.MaxHTTPRequests)
	}
	s.count++
	s.running.Add(1)
	if s.http == nil {
		s.http = newClient()
	}
	return nil
}

// request serves http/request.
func (s *Service) request(ctx context.Context, p *protocol.HTTPRequestParams) (*protocol.HTTPResponse, error) {
	rpc.Async(ctx) // the peer may take its time, whatever waits behind us
	req, err := s.build(p)
	if err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	if p.StreamResponse {
		return s.requestStream(ctx, req, p)
	}
	defer s.running.Done()
	defer s.countOut()
	return s.requestWhole(ctx, req, p)
}

// countOut makes room for another exchange.
func (s *Service) countOut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
}

// requestWhole makes a request and returns all of the response.
func (s *Service) requestWhole(ctx context.Context, req *http.Request, p *protocol.HTTPRequestParams) (*protocol.HTTPResponse, error) {
	lifetime, cancel := s.lifetime(p.TimeoutMs)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	resp, err := s.send(lifetime, req, p)
	if err != nil {
		return nil, err
	}
	memory := s.lender(lifetime)
	defer memory.release()
	result, body := responseOf(resp, memory)
	defer body.Close()
	if result.BodyBase64, err = readAll(ctx, body, lengthOf(resp)); err != nil {
		return nil, err
	}
	return result, nil
}

// lender is for an exchange of ctx.
func (s *Service) lender(ctx context.Context) *lender {
	return &lender{ctx: ctx, account: rpc.AccountOf(s.notifier)}
}

// lengthOf is the length of a response's body, -1 when it is not known.
func lengthOf(resp *http.Response) int64 {
	if resp.Header.Get("Content-Length") == "" { // as it was decoded, too
		return -1
	}
	return resp.ContentLength
}

// send makes a request as far as the head of its response.
func (s *Service) send(ctx context.Context, req *http.Request, p *protocol.HTTPRequestParams) (*http.Response, error) {
	resp, err := s.http.do(req.WithContext(ctx), p.RedirectPolicy, fromEnvironment(p.Headers))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "http/request failed: %s", reason(err))
	}
	return resp, nil
}

// lifetime is the context of one exchange, its body included.
func (s *Service) lifetime(timeoutMs *uint64) (context.Context, context.CancelFunc) {
	if timeoutMs == nil {
		return context.WithCancel(s.ctx)
	}
	limit := time.Duration(min(*timeoutMs, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
	return context.WithTimeout(s.ctx, limit)
}
