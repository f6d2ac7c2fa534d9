"""Words of the two languages: what everybody writes about, and what medicine writes about.

Tables have an entry between two bars: nouns as "German gender English", verbs as "participle
infinitive past infinitive participle" (German, then English), adjectives as "German English".
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Noun(NamedTuple):
    """A noun in the singular; its gender is "m", "f" or "n"."""

    german: str
    gender: str
    english: str


class Verb(NamedTuple):
    """A verb with an object, in German (participle, infinitive) and in English."""

    participle: str
    infinitive: str
    past: str
    to: str
    done: str


class Words(NamedTuple):
    """German words, and the English words that stand for them."""

    german: str
    english: str


def _entries(table: str) -> list[list[str]]:
    return [entry.split() for entry in table.replace("\n", " ").split("|")]


def _list(words: str) -> tuple[str, ...]:
    return tuple(words.split())


def _nouns(table: str) -> tuple[Noun, ...]:
    return tuple(Noun(word, gender, " ".join(rest)) for word, gender, *rest in _entries(table))


def _verbs(table: str) -> tuple[Verb, ...]:
    return tuple(Verb(*entry) for entry in _entries(table))


def _words(table: str) -> tuple[Words, ...]:
    return tuple(Words(*entry) for entry in _entries(table))


PEOPLE: Final = _nouns(
    "Lehrer m teacher|Nachbar m neighbour|Freund m friend|Bruder m brother|Vater m father|"
    "Fahrer m driver|Koch m cook|Maler m painter|Mann m man|Junge m boy|Frau f woman|"
    "Mutter f mother|Schwester f sister|Tochter f daughter|Kollegin f colleague|Chefin f boss|"
    "Richterin f judge|Verkäuferin f saleswoman|Kind n child|Mädchen n girl"
)
THINGS: Final = _nouns(
    "Brief m letter|Wagen m car|Tisch m table|Stuhl m chair|Garten m garden|Schlüssel m key|"
    "Film m film|Koffer m suitcase|Vertrag m contract|Roman m novel|Schrank m cupboard|"
    "Kuchen m cake|Tür f door|Zeitung f newspaper|Lampe f lamp|Brücke f bridge|Küche f kitchen|"
    "Rechnung f bill|Karte f map|Uhr f clock|Tasche f bag|Jacke f jacket|Wohnung f flat|"
    "Kirche f church|Buch n book|Haus n house|Fahrrad n bicycle|Bild n picture|Fenster n window|"
    "Zimmer n room|Dach n roof|Messer n knife|Geschenk n present|Lied n song|Boot n boat|"
    "Klavier n piano|Tafel f tablet|Bandage f bandage|Höhe f level|Ebene f site|"
    "Verwaltung f administration|Nutzen m use|Medizin f medicine|Muster n sample|"
    "Zubereitung f preparation|Raumkapsel f capsule|Gips m plaster|Papier n tissue|"
    "Flüssigkeit f substance|Zufuhr f intake|Wärme f fever|Schwäche f tiredness"
)
_AMBIGUOUS: Final = (
    "Verband m association bandage|Spiegel m mirror level|Bruch m breach fracture|"
    "Anfall m fit seizure|Stoff m cloth substance|Probe f rehearsal sample|"
    "Aufnahme f recording intake|Stelle f job site|Gabe f gift administration|"
    "Anwendung f application use|Mittel n means medicine|Pflaster n pavement plaster|"
    "Präparat n specimen preparation|Gewebe n fabric tissue"
)
"""Nouns that mean one thing in general, and another in medicine."""

AMBIGUOUS: Final = tuple(Noun(one, gender, two) for one, gender, two, _ in _entries(_AMBIGUOUS))
AMBIGUOUS_IN_MEDICINE: Final = tuple(
    Noun(one, gender, two) for one, gender, _, two in _entries(_AMBIGUOUS)
)

VERBS: Final = _verbs(
    "gesehen sehen saw see seen|gekauft kaufen bought buy bought|"
    "verkauft verkaufen sold sell sold|gefunden finden found find found|"
    "gesucht suchen sought seek sought|repariert reparieren repaired repair repaired|"
    "gestrichen streichen painted paint painted|geöffnet öffnen opened open opened|"
    "geschlossen schließen closed close closed|gebracht bringen brought bring brought|"
    "verloren verlieren lost lose lost|gezeichnet zeichnen drew draw drawn|"
    "bezahlt bezahlen paid pay paid|gereinigt reinigen cleaned clean cleaned|"
    "verschenkt verschenken gave give given|beschrieben beschreiben described describe described|"
    "vergessen vergessen forgot forget forgotten|gezeigt zeigen showed show shown|"
    "versteckt verstecken hid hide hidden|geprüft prüfen checked check checked"
)
ADJECTIVES: Final = _words(
    "alt old|neu new|klein small|groß large|schön beautiful|teuer expensive|billig cheap|"
    "schwer heavy|leicht light|rot red|blau blue|weiß white|braun brown|leer empty"
)
TIMES: Final = (
    Words("gestern", "yesterday"), Words("heute", "today"), Words("morgens", "in the morning"),
    Words("abends", "in the evening"), Words("am Montag", "on Monday"),
    Words("am Freitag", "on Friday"), Words("im Sommer", "in summer"),
    Words("im Winter", "in winter"), Words("letzte Woche", "last week"), Words("zweimal", "twice"),
)  # fmt: skip
PREPOSITIONS: Final = (
    ("mit", "with", "dative"), ("für", "for", "accusative"), ("ohne", "without", "accusative"),
    ("neben", "beside", "dative"), ("hinter", "behind", "dative"),
)  # fmt: skip
MODALS: Final = (Words("muss", "must"), Words("kann", "can"), Words("will", "wants to"),
                 Words("soll", "should"))  # fmt: skip
CONJUNCTIONS: Final = (Words("weil", "because"), Words("nachdem", "after"),
                       Words("obwohl", "although"))  # fmt: skip

PATIENTS: Final = _nouns(
    "Arzt m doctor|Patient m patient|Apotheker m pharmacist|Säugling m infant|Ärztin f doctor|"
    "Patientin f patient|Krankenschwester f nurse|Schwangere f pregnant woman"
)
MEDICINES: Final = _nouns(
    "Tablette f tablet|Kapsel f capsule|Dosis f dose|Spritze f syringe|Salbe f ointment|"
    "Infusion f infusion|Behandlung f treatment|Impfung f vaccination|"
    "Wirkstoff m active substance|Sirup m syrup|Impfstoff m vaccine|Tropfen m drop|"
    "Antibiotikum n antibiotic|Insulin n insulin|Pulver n powder|Rezept n prescription"
)
SIDE_EFFECTS: Final = _nouns(
    "Übelkeit f nausea|Müdigkeit f tiredness|Rötung f redness|Schwellung f swelling|"
    "Blutung f bleeding|Depression f depression|Infektion f infection|"
    "Verstopfung f constipation|Durchfall m diarrhoea|Schwindel m dizziness|Juckreiz m itching|"
    "Husten m cough|Hautausschlag m rash|Kopfschmerz m headache|Fieber n fever|"
    "Erbrechen n vomiting|Herzklopfen n palpitation|Zittern n tremor|"
    "Nierenversagen n kidney failure|Asthma n asthma"
)
TREATMENTS: Final = _verbs(
    "eingenommen einnehmen took take taken|"
    "abgesetzt absetzen discontinued discontinue discontinued|"
    "verschrieben verschreiben prescribed prescribe prescribed|"
    "erhalten erhalten received receive received|"
    "verabreicht verabreichen administered administer administered|"
    "verdünnt verdünnen diluted dilute diluted|injiziert injizieren injected inject injected|"
    "gesenkt senken reduced reduce reduced|erhöht erhöhen increased increase increased|"
    "vertragen vertragen tolerated tolerate tolerated"
)
MEDICAL_ADJECTIVES: Final = _words(
    "akut acute|chronisch chronic|häufig common|selten rare|stark severe|mild mild|"
    "täglich daily|oral oral"
)
SURNAMES: Final = _list(
    "Meier Schulz Weber Wagner Becker Hoffmann Richter Klein Wolf Neumann Schwarz Zimmermann "
    "Krüger Hartmann Lange Krause Lehmann Köhler Maier Huber Kaiser Fuchs Peters Scholz "
    "Möller Jung Hahn Vogel Keller Frank Berger Winkler Roth Beck Lorenz Baumann Franke"
)
PRODUCT_STARTS: Final = _list(
    "ab al am ar be ca ce co da de do el en fa fe ga ge hu in ka la le lo ma me mi na ne no "
    "ol pa pe pra re ri ro sa se si so ta te ti to tra va ve vi vo xa xe za ze zo"
)
PRODUCT_ENDS: Final = _list("xan lin mab tin vir pril zol dex cort phen")
