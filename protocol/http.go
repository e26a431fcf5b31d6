package protocol

// HTTPRequestParams has the server make an HTTP request.
type HTTPRequestParams struct {
	Method         string       `json:"method"`
	URL            string       `json:"url"`
	RequestID      string       `json:"requestId"`
	Headers        []HTTPHeader `json:"headers,omitempty" wire:"optional"`
	BodyBase64     *Bytes       `json:"bodyBase64,omitempty" wire:"nullable"`
	TimeoutMs      *uint64      `json:"timeoutMs,omitempty" wire:"nullable"`
	RedirectPolicy string       `json:"redirectPolicy,omitempty" wire:"optional"` // "follow", the default, or "stop"
	StreamResponse bool         `json:"streamResponse,omitempty" wire:"optional"`
}

// HTTPHeader is one header line. ValueEnvVar, in requests only, takes the value
// from the server's environment.
type HTTPHeader struct {
	Name        string  `json:"name"`
	Value       string  `json:"value"`
	ValueEnvVar *string `json:"valueEnvVar,omitempty" wire:"nullable"`
}

// HTTPResponse is the answer; its body is empty when the response is streamed.
type HTTPResponse struct {
	Status     int          `json:"status"`
	Headers    []HTTPHeader `json:"headers"`
	BodyBase64 []byte       `json:"bodyBase64"`
}

// HTTPBodyDeltaParams is the http/request/bodyDelta notification.
type HTTPBodyDeltaParams struct {
	RequestID   string  `json:"requestId"`
	Seq         uint64  `json:"seq"` // from 1
	DeltaBase64 []byte  `json:"deltaBase64"`
	Done        bool    `json:"done"`
	Error       *string `json:"error" wire:"nullable"`
}
