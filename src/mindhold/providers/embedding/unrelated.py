"""How alike unrelated texts look to a model: questions, and statements that answer none of them."""

from __future__ import annotations

from mindhold.model.ranking import Cosines
from mindhold.ports.embedder import Matrix

QUESTIONS = (
    "Which editor does the team use?",
    "When is the rent due?",
    "How do I restart the queue worker?",
    "Who designed the poster for the festival?",
    "What did the doctor say about the knee?",
    "Where is the spare key kept?",
    "Why was the order cancelled?",
    "How long does the battery last?",
    "Which port does the proxy listen on?",
    "What is the name of the new colleague?",
    "When did the lease begin?",
    "How many eggs are in the cake?",
)
STATEMENTS = (
    "The meeting was moved to Thursday at three.",
    "She adopted a grey cat from the shelter last spring.",
    "The build fails because the certificate has expired.",
    "Rain is expected over the weekend, with strong winds along the coast.",
    "He has been learning the violin since he was seven years old.",
    "We decided to keep the old database and drop the cache.",
    "I am allergic to peanuts, and so is my brother.",
    "The museum shows Roman coins found under the bridge.",
    "Interest rates rose by half a percent in June.",
    "Whales sleep with one half of their brain at a time.",
    "Add two spoons of sugar and stir until the butter melts.",
    "The striker was sold to another club for ten million.",
    "Our flight to Lisbon leaves from the second terminal.",
    "The professor published a paper on medieval trade routes.",
    "Paint the fence before the first frost.",
    "The new phone charges twice as fast as the last one.",
    "My grandmother keeps bees behind the orchard.",
    "The court dismissed the appeal on Monday.",
    "Turn left at the church and follow the river.",
    "The novel is told from the view of a lighthouse keeper.",
    "Vaccines for travellers are given on the third floor.",
    "Their first album was recorded in a single night.",
    "The printer is out of paper again.",
    "Wolves returned to the valley after a hundred years.",
)


def spread(questions: Matrix, statements: Matrix) -> Cosines:
    """Of every question with every statement; the rows are unit vectors."""
    cosines = questions @ statements.T
    return Cosines(float(cosines.mean()), float(cosines.std()))
