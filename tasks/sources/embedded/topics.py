"""Rules of each topic: what its authors do, with what, where and with whom."""

from __future__ import annotations

from typing import Final

HEALTH: Final = """
thing: prescription | bandage | thermometer | pill | blood test | vaccine | walking stick
  | hearing aid | eye patch | ointment | medical bill | appointment card | inhaler | cast | crutch
  | wheelchair | first-aid kit | heating pad | hospital bed | insurance form | needle
  | contact lens | toothbrush | stethoscope
place: clinic | pharmacy | hospital | waiting room | emergency room | ward | rehab centre
  | surgery | nursing home | health centre | operating room | laboratory | blood bank
helper: doctor | nurse | dentist | surgeon | therapist | pharmacist | midwife | specialist | medic
  | paramedic | optician | psychiatrist | dietician | caretaker | physician
medicine: painkillers | antibiotics | cough syrup | vitamins | sleeping pills | eye drops
  | aspirin | tablets | insulin | nose spray | antihistamines | herbal drops | iron tablets
  | laxatives
illness: cold | fever | headache | sore throat | rash | cough | migraine | stomach ache
  | infection | flu | sinus infection | ear infection | stomach bug | hay fever | asthma attack
  | food poisoning | sunburn | back ache | panic attack
body: knee | shoulder | ankle | elbow | wrist | back | neck | tooth | left foot | right ear | hip
  | thumb | jaw | heel | wrist bone | collarbone | eyelid | chest | spine | toe
exam: x-ray | scan | check-up | eye test | allergy test | blood sample | hearing test | urine test
  | ultrasound | biopsy | lung test
habit: smoking | biting my nails | skipping breakfast | drinking coffee | staying up late
  | drinking beer | eating sweets | working nights | chewing gum | cracking my knuckles
exercise: stretching exercises | breathing exercises | a short walk | yoga | gentle push-ups
  | swimming lessons | squats | meditation | tai chi | knee bends
act: take the {medicine} twice a day | swallow two {medicine} with a glass of water
  | run out of {medicine} | ask the {helper} for more {medicine} | recover from the {illness}
  | stay in bed with a bad {illness} | catch a nasty {illness} | suffer from a {illness}
  | break a {body} while skiing | put ice on the swollen {body} | rub some cream on my {body}
  | complain about a sore {body} | have a {exam} at the {place} | book a {exam} for next month
  | wait two weeks for the {exam} | get the results of the {exam} | quit {habit} for good
  | do {exercise} every morning | try {exercise} against the pain | see a {helper} about my {body}
  | make an appointment with the {helper} | cancel the appointment with the {helper}
  | get a shot in the arm | measure my blood pressure | lose a lot of weight | count every calorie
  | donate blood | keep a food diary | read the label on the bottle | call an ambulance
  | faint in the {place} | wear a mask in the {place} | soak my {body} in salt water
  | get stitches in the {body} | wait for the swelling to go down | wash my hands with soap
  | check the temperature of the baby | refuse to swallow the {medicine} | mix up the {medicine}
  | keep the {medicine} out of reach of children | find out that i am allergic to {medicine}
  | pass the {illness} on to the whole family | fight off a {illness} with hot soup
  | treat the {illness} with {medicine} | limp home with a bruised {body}
  | change the dressing on the wound | pay the bill for the {exam}
  | postpone the {exam} until summer | hand the form to the {helper}
  | rely on {exercise} instead of {medicine} | recommend {exercise} to everyone
  | fill in the insurance form | drop off a urine sample | remove a splinter with tweezers
  | dream about the {place} | give up {habit} on the advice of the {helper}
story: the {helper} looked at my {body} and ordered a {exam} | my {body} has been sore for weeks
  | the {medicine} did not help against the {illness} | the {illness} kept me awake all night
  | half of the office was down with a {illness}
  | the {helper} prescribed {medicine} for the {illness}
  | the pain in my {body} went away after some {exercise}
  | visiting hours at the {place} are far too short | the side effects of the {medicine} scared me
  | the {helper} listened carefully and took notes | my health insurance covered the {exam}
  | the {helper} at the front desk lost my file | the plaster on my {body} itches terribly
  | a bad {illness} spread through the whole school | the {exam} showed nothing unusual
  | the {helper} could not find a vein in my arm | one of the {medicine} made me dizzy
  | the {place} smelled of soap and bleach | my {body} still hurts when it rains
  | the {helper} warned me about mixing {medicine} with alcohol
  | the waiting list for the {exam} is six months long | the {medicine} taste like chalk
adj_topic: painful | contagious | medical | sterile | chronic | infectious | surgical | hereditary
  | harmless | invisible
adj_good: healthy | gentle | healing | soothing | reassuring | refreshing | nourishing
  | harmonious
adj_bad: infected | swollen | unbearable | dizzying | bitter | feverish | itchy | nauseating
  | dangerous
state_topic: covered by insurance | in the medicine cabinet | on prescription only
state_good: fully healed | free of charge
state_bad: past its date | out of stock
topic_fact: {PERSON} broke {his} {body} near {LOC} | doctor {PERSON} at {ORG} ordered a {exam}
  | {PERSON} spent a week at {ORG} with a bad {illness} | the {exam} at {ORG} cost {MONEY}
  | my appointment with doctor {PERSON} is on {DATE} at {TIME}
  | {PERSON} lost {QUANTITY} in a year | the {helper} at {ORG} in {GPE} speaks {LANGUAGE}
  | {ORG} sent the results to {EMAIL} | {PERSON} takes {PRODUCT} against {his} {illness}
  | {PERCENT} of us caught a {illness} in {GPE} | the ambulance took {PERSON} to {ORG} at {TIME}
  | {PERSON} walked {QUANTITY} for the {EVENT}
"""

TRAVEL: Final = """
thing: suitcase | passport | boarding pass | road map | guidebook | rental car | tent | backpack
  | train ticket | travel pillow | souvenir | postcard | camera | sleeping bag | visa | sun hat
  | bus pass | compass | hotel key | itinerary | umbrella | phrase book | life jacket | hammock
  | water bottle
place: airport | train station | hotel | harbour | campsite | museum | hostel | old town | beach
  | ferry terminal | border crossing | national park | youth hostel | fishing village
  | bus terminal
helper: tour guide | pilot | travel agent | receptionist | taxi driver | flight attendant | porter
  | steward | bellboy | ticket inspector | park ranger | bus driver | customs officer
  | travel blogger
ride: night train | early flight | ferry | shuttle bus | direct flight | cable car | rental bike
  | express train | water taxi | chairlift | overnight bus | chartered plane | tram | steamboat
lodging: single room | double room | cabin | small apartment | room with a view | bunk bed | suite
  | bungalow | guest room | bed for the night | treehouse | caravan
sight: castle | cathedral | lighthouse | waterfall | abbey | palace | royal garden | volcano
  | pyramid | aquarium | temple | city wall | vineyard | glacier | botanical garden | market hall
luggage: bags | suitcases | belongings | winter clothes | swimming things | hiking boots
  | hand luggage | rucksacks | ski boots | camping gear | presents
trip: honeymoon | weekend trip | cruise | road trip | hiking tour | business trip | school trip
  | safari | train journey | city break | sailing trip | pilgrimage | family holiday
delay: a flat tyre | a missing bag | a delayed flight | an expired passport | heavy traffic
  | a broken engine | a storm warning | a sudden strike | a wrong turn | a lost wallet
act: miss the {ride} by two minutes | take the {ride} to the coast | book a {lodging} by the sea
  | reserve a {lodging} for three nights | share a {lodging} with strangers
  | check out of the {place} | climb up to the {sight} at sunrise | take pictures of the {sight}
  | visit the famous {sight} | get lost near the {sight} | pack the {luggage} the night before
  | lose all of our {luggage} | leave the {luggage} at the {place} | plan a {trip} to the islands
  | save money for a {trip} | come back from a long {trip} | deal with {delay}
  | blame the {helper} for {delay} | change trains twice | fly over the mountains
  | go through customs | stand in line at passport control | exchange money at the {place}
  | rent a car with a full tank | sleep under the stars | wander through the narrow streets
  | send postcards to everyone | haggle over the price of a {thing}
  | ask the {helper} for directions | watch the boats in the {place} | drive along the coast
  | snorkel above the coral reef | hitchhike to the next town | fall asleep on the {ride}
  | get seasick on the {ride} | run to catch the {ride} | wave goodbye from the {ride}
  | upgrade to a {lodging} with a balcony | cancel the {lodging} without a fee
  | clean the {lodging} before leaving | squeeze the {luggage} into the trunk
  | weigh the {luggage} on the kitchen scale | carry the {luggage} up four flights of stairs
  | hike down from the {sight} in the dark | queue for hours at the {sight}
  | sketch the {sight} in my notebook | save up for a {trip} around the world
  | postpone the {trip} because of {delay} | tell everyone about our {trip}
  | film the whole {trip} | complain to the {helper} about the {lodging}
  | tip the {helper} for the tour | renew my passport in time | set foot on a desert island
  | feed the seagulls from the {ride} | bargain with a {helper}
story: the {ride} was delayed because of {delay} | our {lodging} had no hot water
  | the view from the {lodging} took our breath away | the {sight} is closed to visitors in winter
  | the {helper} showed us a shortcut to the {sight} | the {trip} ended with {delay}
  | the {ride} left from the wrong platform | nobody had told us about the {sight}
  | the queue at the {sight} was endless | my {luggage} arrived three days later
  | we spent most of the {trip} looking for a {lodging}
  | the {helper} lost our reservation for the {lodging} | the {ride} only runs on weekdays
  | the {sight} looks much smaller than in the brochure | the {lodging} smelled of paint and smoke
  | a {helper} returned my wallet the same evening
  | the {ride} rolled past vineyards and olive groves | the tide washed our {luggage} away
  | the {helper} told stories about the {sight} | the road to the {sight} was blocked by sheep
  | our tent leaked on the first night of the {trip} | the {trip} cost twice as much as planned
adj_topic: foreign | remote | coastal | scenic | tropical | exotic | mountainous | medieval
  | rocky | international
adj_good: breathtaking | picturesque | unforgettable | charming | sunny | peaceful | hospitable
  | adventurous
adj_bad: overpriced | touristy | overcrowded | filthy | stressful | muddy | noisy | humid | seedy
state_topic: at the lost property office | in the overhead locker | booked out
state_good: cheaper online | on the house
state_bad: stuck at customs | double booked
topic_fact: we flew from {GPE} to {GPE} with {ORG} | {PERSON} met us at the {FAC} in {GPE}
  | the {ride} to {GPE} leaves at {TIME} on {DATE}
  | {PERSON} booked a {lodging} at {ORG} for {MONEY}
  | we hiked {QUANTITY} around {LOC} with {PERSON} | the {sight} near {LOC} opens at {TIME}
  | {PERSON} speaks {LANGUAGE} , which helped in {GPE}
  | a {NORP} couple shared our {lodging} in {GPE} | {ORG} lost the {luggage} of {PERSON} in {GPE}
  | we sailed across {LOC} on {DATE} | {PERSON} missed the {ride} to {GPE}
  | a {ride} from {GPE} to {LOC} costs {MONEY} | {PERSON} wrote {WORK_OF_ART} on a {trip} to {GPE}
  | hotels in {GPE} are {PERCENT} cheaper in winter
"""

WORK: Final = """
thing: laptop | printer | contract | spreadsheet | invoice | office chair | company car | keyboard
  | headset | whiteboard | filing cabinet | business card | door badge | coffee machine | stapler
  | desk lamp | projector | photocopier | time sheet | parking permit | desk drawer | name tag
  | calendar | folder
place: office | meeting room | warehouse | canteen | factory | headquarters | call centre
  | workshop | loading dock | reception | open-plan office | construction site | branch | archive
helper: manager | assistant | accountant | secretary | intern | supervisor | consultant
  | recruiter | director | trainee | foreman | technician | auditor | designer | receptionist
report_: annual report | sales figures | monthly budget | project plan | minutes of the meeting
  | business plan | expense report | press release | tax return | quarterly forecast | user manual
  | memo
meeting: staff meeting | job interview | conference call | training course | performance review
  | board meeting | team lunch | trade fair | kick-off meeting | video call | farewell party
money: salary | bonus | pay rise | pension | expenses | overtime pay | travel allowance
  | commission | severance pay | hourly wage | refund | christmas bonus
task: inventory | payroll | paperwork | customer complaints | night shift | new website
  | stocktaking | filing | data entry | weekly newsletter | security audit | phone duty
software: database | operating system | mail server | backup | payment system | spam filter
  | intranet | login page | accounting software | search engine | firewall | online shop
act: finish the {report_} ahead of schedule | rewrite the {report_} from scratch
  | present the {report_} to the board | print out the {report_} | sit through a long {meeting}
  | prepare for the {meeting} | arrive late for the {meeting} | postpone the {meeting} by a week
  | negotiate a better {money} | wait for the {money} to arrive | ask for a higher {money}
  | take care of the {task} | fall behind with the {task} | share the {task} with the {helper}
  | update the {software} overnight | restart the {software} after the power cut
  | reset the password of the {software} | hand in my notice | work overtime on weekends
  | sign the contract with a new supplier | apply for a job in another department
  | reply to all of the emails | meet the deadline | get promoted to team leader
  | hire a new {helper} | train the new {helper} | argue with the {helper} over the {report_}
  | go on strike for better {money} | work from home on fridays | fix the printer on our floor
  | order new chairs for the {place} | proofread the {report_} twice
  | lock the {report_} in the safe | translate the {report_} for the board
  | sum up the {report_} in one page | shred the old {report_} by mistake
  | chair the {meeting} for the first time | fall asleep during the {meeting}
  | take notes in the {meeting} | dress up for the {meeting} | spend the {money} on a new bike
  | compare the {money} with the industry average | tax the {money} at the full rate
  | delegate the {task} to the {helper} | automate the {task} with a script
  | volunteer for the {task} | move the {software} to the cloud
  | test the {software} before the launch | delete half of the {software} by accident
  | call a technician about the {software} | commute by train and bicycle
  | swap shifts with the {helper} | retire at the age of sixty | resign without another job
  | write a reference for the {helper} | water the plants in the {place} | open a branch abroad
story: the {software} crashed in the middle of the {meeting}
  | the {helper} forgot to send the {report_} | my {money} was paid two weeks late
  | the {meeting} could have been an email | the board turned down the {report_} without a word
  | the {task} took longer than planned | our {helper} is on parental leave until spring
  | the deadline for the {report_} was moved | nobody had made a copy of the {software}
  | the company cut every {money} by a tenth | the {helper} praised my work on the {report_}
  | the {helper} took the credit for the {report_} | a typo in the {report_} caused an uproar
  | the {software} has been down since monday | the {meeting} was cancelled at short notice
  | the {helper} spilled coffee on the {report_} | the trade union asked for a higher {money}
  | half of the staff is busy with the {task} | the heating in the {place} has failed again
  | the {money} hardly covers the rent | the {report_} is due at the end of the quarter
adj_topic: professional | confidential | urgent | corporate | temporary | administrative
  | technical | digital | commercial | legal
adj_good: productive | efficient | well paid | rewarding | flexible | ambitious | cooperative
  | innovative
adj_bad: underpaid | chaotic | bureaucratic | unproductive | outdated | tedious | hectic
  | inefficient | hopeless
state_topic: on my desk | approved by the board | under review
state_good: signed and sealed | ahead of schedule
state_bad: full of errors | over budget
topic_fact: {PERSON} started as a {helper} at {ORG} on {DATE} | {ORG} moved its {place} to {GPE}
  | the {meeting} with {PERSON} starts at {TIME} | {ORG} paid {PERSON} {MONEY} for the {report_}
  | {PERSON} left {ORG} after the {meeting} | send the {report_} to {PERSON} at {FRIEND_EMAIL}
  | {ORG} cut the {money} by {PERCENT} | the {NORP} branch of {ORG} closes on {DATE}
  | {PERSON} presented the new {PRODUCT} in {GPE} | {ORG} sold the {place} at the {FAC}
  | our {helper} {PERSON} translated the {report_} into {LANGUAGE}
  | the {PRODUCT} brought {ORG} more than {MONEY} | {PERSON} gave a talk at the {EVENT} in {GPE}
"""

FOOD: Final = """
thing: frying pan | recipe book | bread knife | oven | blender | teapot | kettle | wooden spoon
  | cutting board | lunch box | fridge | salad bowl | coffee mug | shopping list | napkin
  | rolling pin | whisk | corkscrew | grater | toaster | baking tray | sieve | chopping knife
  | apron | ladle
place: kitchen | restaurant | bakery shop | supermarket | food market | cafe | pizza place | diner
  | canteen kitchen | ice cream parlour | wine bar | farm shop | tea room | steakhouse
helper: cook | waiter | baker | butcher | waitress | barista | chef | greengrocer | cashier
  | dishwasher | pastry chef | food critic | fishmonger | bartender | kitchen hand
dish: lasagna | pumpkin soup | fried rice | chicken curry | mushroom risotto | bean stew
  | omelette | vegetable soup | noodle salad | meat loaf | fish pie | potato gratin
  | stuffed cabbage | pancakes | tomato sauce | roast chicken
cake: chocolate cake | apple pie | cheesecake | birthday cake | carrot cake | banana bread
  | lemon tart | plum cake | gingerbread | fruit cake | brownies | cinnamon rolls | sponge cake
veg: onions | carrots | potatoes | mushrooms | peppers | tomatoes | green beans | garlic cloves
  | leeks | cucumbers | beetroots | zucchini | radishes | lentils | parsnips | artichokes
drink: lemonade | orange juice | herbal tea | black coffee | red wine | sparkling water | cider
  | iced tea | hot chocolate | tap water | apple cider | ginger ale | milk | espresso | dark beer
spice: salt | pepper | cinnamon | ginger | chili powder | fresh basil | nutmeg | lemon juice
  | paprika | oregano | thyme | vanilla | soy sauce | mustard seeds | brown sugar | olive oil
meal: breakfast | dinner | lunch | a late supper | a picnic | brunch | a light snack
  | sunday roast | a barbecue | a three-course meal | afternoon tea
act: chop the {veg} into small pieces | peel the {veg} for the {dish} | fry the {veg} in butter
  | buy fresh {veg} at the market | cook a big pot of {dish} | order the {dish} of the day
  | burn the {dish} again | taste the {dish} before serving | bake a {cake} for the party
  | cut the {cake} into twelve slices | decorate the {cake} with cherries
  | eat the last piece of {cake} | add a pinch of {spice} | season the {dish} with {spice}
  | use too much {spice} | drink a glass of {drink} | pour some {drink} for the guests
  | spill {drink} on the tablecloth | have {meal} in the garden | skip {meal} altogether
  | invite the neighbours for {meal} | wash the dishes by hand | set the table for eight
  | leave a generous tip | send the {dish} back to the kitchen | let the dough rise overnight
  | stir the sauce with a {thing} | give up sugar for a month | grow {veg} on the balcony
  | ask the {helper} for the recipe | book a table for four | roast the {veg} with {spice}
  | steam the {veg} for ten minutes | pickle the {veg} in vinegar
  | rinse the {veg} under cold water | throw the rotten {veg} away
  | serve the {dish} with a green salad | warm up the {dish} in the microwave
  | freeze the rest of the {dish} | share the {dish} with the table next to us
  | top the {cake} with whipped cream | hide the {cake} from the kids
  | sell {cake} at the school fair | sprinkle {spice} over the {dish}
  | mistake the {spice} for sugar | brew fresh {drink} for everyone
  | order another round of {drink} | mix the {drink} with ice | prepare {meal} for twenty guests
  | pay for {meal} in cash | celebrate the birthday with {meal} | sharpen the knives
  | melt the butter in a {thing} | beat the eggs until fluffy | knead the dough for ten minutes
  | pass the plate to the {helper} | count the forks and spoons
story: the {dish} needs a little more {spice} | the {cake} came out of the oven too early
  | the {veg} from our garden taste of nothing | the {helper} recommended the {dish} with {drink}
  | there was a hair in my {dish} | the secret of a good {dish} is {spice}
  | the smell of {cake} filled the whole house | the {drink} was warm and the {dish} was cold
  | the kids refused to eat the {veg} | we ran out of {spice} before the {dish} was done
  | {meal} was served on the terrace | the {helper} dropped a tray of {cake}
  | the {dish} tasted of nothing but {spice} | the {veg} were still raw in the middle
  | a glass of {drink} costs a fortune here | the {helper} knows how to carve a turkey
  | the {dish} boiled over and ruined the stove | the dog ate the {cake} for the guests
  | the line for {cake} reached the street | our {meal} ended with {cake} and {drink}
  | the {veg} are cheaper at the {place} | the {helper} would not reveal the secret of the {dish}
adj_topic: spicy | sweet | salty | vegetarian | homemade | organic | vegan | frozen | bitter
  | creamy
adj_good: delicious | tasty | juicy | crispy | mouth-watering | fragrant | appetizing | mellow
adj_bad: tasteless | greasy | burnt | stale | overcooked | soggy | rancid | mouldy | lumpy
state_topic: in the dishwasher | on the menu | in the oven
state_good: freshly baked | cooked to perfection
state_bad: past the sell-by date | full of crumbs
topic_fact: {PERSON} cooked {dish} for us in {GPE} | the {dish} at {ORG} costs {MONEY}
  | we had {meal} at {ORG} near the {FAC} | {PERSON} bakes the best {cake} in {GPE}
  | {ORG} opened a {place} in {GPE} on {DATE} | i booked a table at {ORG} for {TIME}
  | {PERSON} served {NORP} {dish} at the {EVENT} | {PERSON} put {PRODUCT} into the {dish}
  | the {helper} at {ORG} gave {PERSON} {his} recipe | the price of {veg} rose by {PERCENT}
  | {PERSON} bought {QUANTITY} of {veg} from {ORG}
  | the {cake} for {PERSON} must be ready at {TIME}
"""

SPORT: Final = """
thing: tennis racket | football | helmet | gold medal | trophy | season ticket | jersey | whistle
  | skateboard | fishing rod | yoga mat | surfboard | stopwatch | scoreboard | ski pass
  | bicycle pump | baseball bat | hockey stick | swimming cap | shuttlecock | jump rope
  | sports bag | goal post | dumbbell | team photo
place: stadium | gym | swimming pool | tennis court | locker room | golf course | ice rink | arena
  | running track | boxing ring | ski slope | climbing hall | dressing room | stands
helper: coach | referee | goalkeeper | trainer | umpire | team captain | striker | lifeguard
  | physio | sprinter | goalie | jockey | defender | linesman | commentator | rower
match: semi-final | cup final | friendly match | home game | penalty shoot-out | derby | playoff
  | final | quarter-final | practice game | away game | opening match | rematch
race: marathon | relay race | triathlon | bicycle race | hundred metre sprint | obstacle course
  | rowing race | steeplechase | cross-country run | charity run | swimming contest
  | qualifying round
injury: torn muscle | twisted ankle | concussion | broken rib | stiff neck | bruised hip
  | black eye | broken collarbone | bloody nose | cramp | dislocated shoulder | strained tendon
skill: backhand | free kick | butterfly stroke | long jump | headstand | serve | somersault
  | pole vault | handstand | slam dunk | drop shot | corner kick | high dive | crawl
team: home team | youth team | national team | away team | second team | women's team
  | women's side | veterans | junior squad | rival team | champions | relay team
act: win the {match} in extra time | lose the {match} by a single goal
  | watch the {match} on a big screen | buy tickets for the {match} | sign up for the {race}
  | finish the {race} in last place | train for the {race} all winter | drop out of the {race}
  | practise the {skill} for hours | improve my {skill} | teach the kids a {skill}
  | cheer for the {team} | play for the {team} | join the {team} as a substitute
  | get over a {injury} | miss the season with a {injury} | warm up with the {team}
  | score twice in the first half | argue with the referee | break the club record
  | lift weights at the gym | swim forty lengths before work | throw the ball over the fence
  | run around the lake | get a yellow card | sing the club anthem | carry the {team} to victory
  | wear the {thing} of the {team} | go skating with the {helper}
  | celebrate the victory of the {team} | lace up my running shoes
  | follow the {match} on the radio | bet on the {match} with my savings
  | film the {match} for the club | postpone the {match} because of the snow
  | tie the {match} in the last minute | lead the {race} until the last lap
  | faint after the {race} | collect money at the {race} | hand out water at the {race}
  | perfect the {skill} in slow motion | land badly after the {skill}
  | show off my {skill} to the kids | wave flags for the {team} | boo the {team} off the pitch
  | coach the {team} on weekends | travel with the {team} to every {match}
  | recover from a {injury} | play on despite a {injury} | stretch before and after the {race}
  | catch the ball with one hand | row across the lake at dawn | cycle to the {place} and back
  | hit the ball into the net | keep fit with rowing | miss the penalty
  | miss training because of work
story: the {team} scored three goals in the {match} | the {helper} was sent off in the {match}
  | the {match} ended in a draw | a {injury} ruined the {race} for me
  | the {helper} dropped our best player before the {match} | rain stopped play during the {match}
  | the {team} has not won a {match} since spring | the crowd went wild after the {skill}
  | the {race} starts and ends at the town hall
  | my {skill} is still not good enough for the {team}
  | the {helper} blamed the {injury} for the defeat | the {helper} showed the {team} a red card
  | the {team} celebrated until dawn after the {match}
  | a dog ran onto the pitch during the {match}
  | the {helper} praised my {skill} in front of the {team}
  | the {race} was cancelled because of the ice | the last lap of the {race} was pure torture
  | the {match} went to a replay | the {team} has lost its best {helper}
  | the {helper} promised us a new {thing} | the floodlights failed during the {match}
  | my {injury} has healed in time for the {race}
adj_topic: athletic | competitive | physical | amateur | muscular | tactical | defensive
  | seasonal | outdoor | olympic
adj_good: unbeatable | thrilling | legendary | sporty | energetic | spectacular | heroic
  | victorious
adj_bad: exhausting | one-sided | clumsy | violent | unsporting | brutal | pointless | sluggish
  | lousy
state_topic: in the locker | at half time | sold in the fan shop
state_good: signed by the captain | good as gold
state_bad: sold out | covered in mud
topic_fact: {PERSON} scored twice for {ORG} in the {match}
  | {ORG} beat {ORG} in the {match} in {GPE}
  | {PERSON} ran {QUANTITY} along {LOC} before the {race} | the {match} in {GPE} starts at {TIME}
  | {PERSON} won the {EVENT} with {his} {skill}
  | tickets for the {match} at the {FAC} cost {MONEY} | {ORG} signed the {NORP} {helper} {PERSON}
  | the {race} around {LOC} takes place on {DATE} | {PERSON} missed the {EVENT} with a {injury}
  | {ORG} paid {MONEY} for a {helper} from {GPE} | {PERSON} coaches the {team} of {ORG}
  | {PERCENT} of the seats at the {FAC} were empty
"""

TOPICS: Final = {"health": HEALTH, "travel": TRAVEL, "work": WORK, "food": FOOD, "sport": SPORT}
"""Topic label -> its rules."""
