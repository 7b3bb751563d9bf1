"""What SmolLM2-135M-Instruct Q4_1 says, recorded from a correct build: greedy, no penalties."""

QUESTION = "What is the capital of France? Answer in one word."
ANSWER = "The capital of France is Paris."

BEGINNING = "The capital of France is"
COMPLETION = " Paris.\n"  # the three tokens that follow
LOG_PARIS = -0.26  # log of the first one's probability
